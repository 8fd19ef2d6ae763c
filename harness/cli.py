"""`harness check | gate | leaderboard | profile | doctor`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from harness import __version__, devices, doctor, option_types
from harness.build.ninja import CompileError
from harness.build.toolchain import ToolchainError
from harness.checking import Checking
from harness.chosen import Pair, narrowed
from harness.discovery import Discovery, Submission, discover, fits
from harness.escape import one_line
from harness.evaluate import Request
from harness.finished import FOLDER as FINISHED
from harness.finished import Finished
from harness.gate import command as gate
from harness.grid import fresh_seed
from harness.leaderboard import command as leaderboard
from harness.options import (
    NOT_PASSED,
    PASSED,
    USAGE,
    UsageError,
    add_evaluation_options,
    add_problem_options,
    add_sandbox_options,
    check_paths,
    check_sandbox,
    problems_of,
    sandbox_note,
)
from harness.output import JsonLines, open_json
from harness.pool import cores_each, usable_cores
from harness.problem import Problem, ProblemError
from harness.profile import ProfileError, profile
from harness.profile_tables import tables
from harness.worker.supervisor import Deadlines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit status: 0 all passed, 1 something did not, 2 usage.

    Raises:
        OSError: standard output, or something else that the command needs, cannot be written.
    """
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        # The command's own usage, where argparse would print the one of all commands.
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        status: int = options.run(options)
    except (UsageError, ProblemError, devices.DeviceError) as error:
        print(f"harness: {error}", file=sys.stderr)
        return USAGE
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harness",
        description="Check, rank and gate CUDA kernel submissions, with or without a GPU.",
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="check submissions against their references")
    check.set_defaults(run=_check, parser=check)
    check.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    add_problem_options(check)
    add_evaluation_options(check)
    check.add_argument(
        "--json", metavar="FILE", help="write reports there, one JSON object a line; - is stdout"
    )
    check.add_argument(
        "--schedule",
        type=option_types.schedule,
        default=0,
        metavar="N",
        help="permute the order of blocks and warps with this seed, to find what depends on it "
        "(default: 0, the natural order)",
    )
    check.add_argument(
        "--resume",
        action="store_true",
        help="take over what an earlier run had finished, of the same contents and by the same "
        "means, and run the rest",
    )
    check.add_argument(
        "--case",
        action="append",
        metavar="ID",
        help="run this case only, and keep no report of it (repeatable); with --seed it replays "
        "one case",
    )

    leaderboard.add_to(commands)

    counting = commands.add_parser(
        "profile", help="count what a submission's kernels do, on the simulator"
    )
    counting.set_defaults(run=_profile, parser=counting)
    counting.add_argument("submission", type=Path, metavar="SUBMISSION", help="a file")
    add_problem_options(counting)
    add_sandbox_options(counting)
    counting.add_argument(
        "--json",
        metavar="FILE",
        help="write all counts there, a line for each problem; - is stdout",
    )

    gate.add_to(commands)

    examine = commands.add_parser("doctor", help="say what this machine has and lacks")
    examine.set_defaults(run=_doctor, parser=examine)
    return parser


def _check(options: argparse.Namespace) -> int:
    check_paths(options.paths)
    if options.case and (options.resume or options.json):
        raise UsageError("--case: some cases are no report to keep; leave out --resume and --json")
    problems = problems_of(options)
    device = devices.choose(options.device)
    check_sandbox(options.readable, untrusted=options.untrusted)
    found = discover(options.paths)
    seed = fresh_seed() if options.seed is None else options.seed
    pairs = [
        Pair(submission, problem)
        for submission in found.submissions
        for problem in problems
        if fits(submission, problem) is None
    ]
    if options.case:
        pairs = narrowed(pairs, options.case, options.grid, device)
    requests = [
        Request(
            submission=pair.submission.path,
            problem=pair.problem.path,
            device=device,
            grid=options.grid,
            seed=seed,
            only=pair.only,
            deadlines=Deadlines(step=options.step_seconds),
            schedule=options.schedule,
            cores=cores_each(options.jobs, len(pairs)),
            readable=tuple(options.readable),
            untrusted=options.untrusted,
        )
        for pair in pairs
    ]
    with ExitStack() as stack:
        json_lines = _open_json(options.json, stack)
        out = sys.stderr if json_lines and json_lines.is_standard_output else sys.stdout
        _say_what_is_missing(out)
        refused = _say_what_is_refused(found, problems, out)
        checking = Checking(Finished(FINISHED, device), json_lines, out)
        if options.resume:
            requests = checking.take_over(requests, options.seed)
        try:
            checking.run(requests, options.jobs)
        except KeyboardInterrupt:
            goes_on = () if options.case else ("--resume goes on from here",)
            raise KeyboardInterrupt(*goes_on) from None
    if checking.has_trouble:
        return USAGE
    return PASSED if checking.all_passed and not refused else NOT_PASSED


def _open_json(target: str | None, stack: ExitStack) -> JsonLines | None:
    try:
        return None if target is None else open_json(target, stack)
    except OSError as error:
        raise UsageError(f"--json {target}: {error.strerror}") from None


def _say_what_is_missing(out: IO[str]) -> None:
    """A line where submissions run as they are."""
    note = sandbox_note()
    if note:
        print(f"note: {note}", file=out, flush=True)


def _say_what_is_refused(found: Discovery, problems: Sequence[Problem], out: IO[str]) -> int:
    """A line for each file that cannot be checked; answers how many there are."""
    lines = [f"{rejected.path}: {rejected.message}" for rejected in found.rejected]
    lines += [
        f"{submission.path}: fits no problem: {_why_unfit(submission, problems)}"
        for submission in found.submissions
        if all(fits(submission, problem) for problem in problems)
    ]
    for line in lines:
        print(one_line(line), file=out, flush=True)
    return len(lines)


def _why_unfit(submission: Submission, problems: Sequence[Problem]) -> str:
    return "; ".join(f"{problem.name}: {fits(submission, problem)}" for problem in problems)


def _profile(options: argparse.Namespace) -> int:
    if options.submission.is_dir():
        raise UsageError(f"{options.submission}: is a folder; give the file of one submission")
    if not options.submission.is_file():
        raise UsageError(f"{options.submission}: no such file")
    problems = problems_of(options)
    device = devices.choose("simulator")
    check_sandbox(options.readable, untrusted=options.untrusted)
    found = discover([options.submission])
    with ExitStack() as stack:
        json_lines = _open_json(options.json, stack)
        out = sys.stderr if json_lines and json_lines.is_standard_output else sys.stdout
        _say_what_is_missing(out)
        refused = _say_what_is_refused(found, problems, out)
        failed = False
        for submission in found.submissions:
            for problem in problems:
                if fits(submission, problem) is None:
                    request = Request(
                        submission=submission.path,
                        problem=problem.path,
                        device=device,
                        cores=usable_cores(),
                        readable=tuple(options.readable),
                        untrusted=options.untrusted,
                    )
                    failed |= not _profile_one(request, problem, submission, json_lines, out)
    return NOT_PASSED if failed or refused else PASSED


def _profile_one(
    request: Request,
    problem: Problem,
    submission: Submission,
    json_lines: JsonLines | None,
    out: IO[str],
) -> bool:
    """Print one profile; answers whether nothing was found wrong."""
    try:
        counted = profile(request, problem, submission)
    except (ProfileError, ToolchainError, CompileError) as error:
        print(f"{submission.name} on {problem.name}: {error}", file=out)
        return False
    print(tables(counted), file=out, flush=True)
    if json_lines is not None:
        json_lines.write(json.dumps(counted.to_plain()))
    return not counted.failed


def _doctor(_: argparse.Namespace) -> int:
    findings = doctor.examine()
    for finding in findings:
        print(finding.line)
    return PASSED if all(finding.is_fine for finding in findings) else NOT_PASSED
