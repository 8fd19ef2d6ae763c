"""`harness check | leaderboard | profile | doctor`."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Sequence
from concurrent.futures import Future, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from harness import devices, doctor, leaderboard, render, store
from harness.build.ninja import CompileError
from harness.build.toolchain import ToolchainError
from harness.discovery import Discovery, Submission, discover, fits
from harness.evaluate import Progress, Request
from harness.pool import EvaluationError, Pool, cores_each, usable_cores
from harness.problem import Problem, ProblemError
from harness.profile import ProfileError, profile
from harness.profile_tables import tables
from harness.references import load_references
from harness.report import Report
from harness.worker.supervisor import Deadlines

PASSED, NOT_PASSED, USAGE = 0, 1, 2


class UsageError(ValueError):
    """The command line asks for something that cannot be; the message is one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit status: 0 all passed, 1 something did not, 2 usage."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (UsageError, ProblemError, devices.DeviceError) as error:
        print(f"harness: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return NOT_PASSED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harness", description="Check and rank CUDA kernel submissions, with or without a GPU."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="check submissions against their references")
    check.set_defaults(run=_check)
    check.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    _add_problem_options(check)
    check.add_argument(
        "--device",
        choices=devices.CHOICES,
        default="auto",
        help="default: the GPU if there is one, else the simulator",
    )
    check.add_argument(
        "--grid", choices=("quick", "full"), default="quick", help="all pairs of values, or triples"
    )
    check.add_argument(
        "--json", metavar="FILE", help="write reports there, one JSON object a line; - is stdout"
    )
    check.add_argument("--seed", type=int, help="replay a report's values (default: new ones)")
    check.add_argument(
        "--schedule",
        type=int,
        default=0,
        metavar="N",
        help="permute the order of blocks and warps with this seed, to find what depends on it "
        "(default: 0, the natural order)",
    )
    check.add_argument("--jobs", type=int, default=usable_cores(), help="submissions at a time")
    check.add_argument(
        "--step-seconds",
        type=float,
        default=Deadlines.step,
        metavar="S",
        help="deadline for importing, constructing and each call (default: %(default)s)",
    )

    board = commands.add_parser("leaderboard", help="rank what has been checked")
    board.set_defaults(run=_leaderboard)
    board.add_argument("paths", nargs="*", type=Path, metavar="PATH", default=[Path("submissions")])
    _add_problem_options(board)
    board.add_argument(
        "--format",
        choices=leaderboard.FORMATS,
        default="simple",
        metavar="FORMAT",
        help="one of tabulate's: github, plain, simple, html, ...",
    )

    counting = commands.add_parser(
        "profile", help="count what a submission's kernels do, on the simulator"
    )
    counting.set_defaults(run=_profile)
    counting.add_argument("submission", type=Path, metavar="SUBMISSION", help="a file")
    _add_problem_options(counting)
    counting.add_argument(
        "--json",
        metavar="FILE",
        help="write all counts there, a line for each problem; - is stdout",
    )

    examine = commands.add_parser("doctor", help="say what this machine has and lacks")
    examine.set_defaults(run=_doctor)
    return parser


def _add_problem_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problem", metavar="NAME", help="only this one of the references")
    parser.add_argument(
        "--reference",
        action="append",
        type=Path,
        metavar="PATH",
        help="reference file, or folder of them (default: reference/; repeatable)",
    )


def _problems(options: argparse.Namespace) -> tuple[Problem, ...]:
    problems = load_references(options.reference or [Path("reference")])
    if options.problem is None:
        return problems
    chosen = tuple(problem for problem in problems if problem.name == options.problem)
    if not chosen:
        names = ", ".join(problem.name for problem in problems)
        raise UsageError(f"--problem {options.problem}: no such reference; there are {names}")
    return chosen


def _check(options: argparse.Namespace) -> int:
    missing = [path for path in options.paths if not path.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file or folder")
    problems = _problems(options)
    device = devices.choose(options.device)
    found = discover(options.paths)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    pairs = [
        (submission, problem)
        for submission in found.submissions
        for problem in problems
        if fits(submission, problem) is None
    ]
    requests = [
        Request(
            submission=submission.path,
            problem=problem.path,
            device=device,
            grid=options.grid,
            seed=seed,
            deadlines=Deadlines(step=options.step_seconds),
            schedule=options.schedule,
            cores=cores_each(options.jobs, len(pairs)),
        )
        for submission, problem in pairs
    ]
    with ExitStack() as stack:
        json_file = _open_json(options.json, stack)
        out = sys.stderr if json_file is sys.stdout else sys.stdout
        refused = _say_what_is_refused(found, problems, out)
        reports = _evaluate(requests, options.jobs, json_file, out)
    all_passed = all(report.verdict == "passed" for report in reports)
    return PASSED if all_passed and len(reports) == len(requests) and not refused else NOT_PASSED


def _open_json(target: str | None, stack: ExitStack) -> IO[str] | None:
    if target is None:
        return None
    if target == "-":
        return sys.stdout
    try:
        return stack.enter_context(Path(target).open("w"))
    except OSError as error:
        raise UsageError(f"--json {target}: {error.strerror}") from None


def _say_what_is_refused(found: Discovery, problems: Sequence[Problem], out: IO[str]) -> int:
    """A line for each file that cannot be checked; answers how many there are."""
    lines = [f"{rejected.path}: {rejected.message}" for rejected in found.rejected]
    lines += [
        f"{submission.path}: fits no problem: {_why_unfit(submission, problems)}"
        for submission in found.submissions
        if all(fits(submission, problem) for problem in problems)
    ]
    for line in lines:
        print(line, file=out, flush=True)
    return len(lines)


def _why_unfit(submission: Submission, problems: Sequence[Problem]) -> str:
    return "; ".join(f"{problem.name}: {fits(submission, problem)}" for problem in problems)


def _evaluate(
    requests: Sequence[Request], jobs: int, json_file: IO[str] | None, out: IO[str]
) -> list[Report]:
    """Evaluate everything, saying each result when it is there."""
    reports = []
    with Pool(jobs) as pool:
        futures: dict[Future[Report], Request] = {
            pool.submit(request, _ProgressLine(request)): request for request in requests
        }
        for future in as_completed(futures):
            try:
                report = future.result()
            except EvaluationError as error:
                print(f"{futures[future].submission.name}: {error}", file=out, flush=True)
                continue
            reports.append(report)
            print(render.full(report), file=out, flush=True)
            if json_file is not None:
                print(report.to_json(), file=json_file, flush=True)
            store.save(report, store.FOLDER)
    return reports


class _ProgressLine:
    """Show on a terminal what one evaluation is at."""

    def __init__(self, request: Request) -> None:
        self._title = f"{request.submission.stem} on {request.problem.stem}"
        self._done = 0

    def __call__(self, progress: Progress) -> None:
        if not sys.stderr.isatty():
            return
        self._done += progress.event == "case"
        doing = f"building {progress.name}" if progress.event == "building" else "running cases"
        print(f"\r\033[K{self._title}: {doing}, {self._done} done\r", end="", file=sys.stderr)


def _leaderboard(options: argparse.Namespace) -> int:
    submissions = discover(options.paths).submissions
    for problem in _problems(options):
        found = leaderboard.rows(problem, submissions, store.FOLDER)
        print(f"{problem.name}\n\n{leaderboard.table(found, options.format)}\n")
    return PASSED


def _profile(options: argparse.Namespace) -> int:
    if not options.submission.is_file():
        raise UsageError(f"{options.submission}: no such file")
    problems = _problems(options)
    device = devices.choose("simulator")
    found = discover([options.submission])
    with ExitStack() as stack:
        json_file = _open_json(options.json, stack)
        out = sys.stderr if json_file is sys.stdout else sys.stdout
        refused = _say_what_is_refused(found, problems, out)
        failed = False
        for submission in found.submissions:
            for problem in problems:
                if fits(submission, problem) is None:
                    request = Request(submission.path, problem.path, device, cores=usable_cores())
                    failed |= not _profile_one(request, problem, submission, json_file, out)
    return NOT_PASSED if failed or refused else PASSED


def _profile_one(
    request: Request,
    problem: Problem,
    submission: Submission,
    json_file: IO[str] | None,
    out: IO[str],
) -> bool:
    """Print one profile; answers whether nothing was found wrong."""
    try:
        counted = profile(request, problem, submission)
    except (ProfileError, ToolchainError, CompileError) as error:
        print(f"{submission.name} on {problem.name}: {error}", file=out)
        return False
    print(tables(counted), file=out, flush=True)
    if json_file is not None:
        print(json.dumps(counted.to_plain()), file=json_file, flush=True)
    return not counted.failed


def _doctor(_: argparse.Namespace) -> int:
    findings = doctor.examine()
    for finding in findings:
        print(finding.line)
    return PASSED if all(finding.is_fine for finding in findings) else NOT_PASSED


if __name__ == "__main__":
    sys.exit(main())
