"""`harness gate`."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness import devices
from harness.escape import one_line
from harness.gate import render, settings
from harness.gate.before import RecordError
from harness.gate.decision import Change, Decision
from harness.gate.revision import RevisionError
from harness.gate.run import Manner, decide
from harness.gate.sources import Comparison, with_file, with_revision
from harness.grid import fresh_seed
from harness.options import (
    NOT_PASSED,
    PASSED,
    UsageError,
    add_evaluation_options,
    add_problem_options,
    check_sandbox,
    problems_of,
    references_of,
    sandbox_note,
)
from harness.speed.result import FOLDER
from harness.worker.supervisor import Deadlines

_DESCRIPTION = """
Compare submissions with an older version of them. Only what changed is evaluated. What was right
must be right, and the precision class may not fall; speed is judged by the simulator's counters, or
by speed results that were measured alike. Exit status: 0 nothing is worse, 1 something is, 2 usage.
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "gate", help="compare submissions with an older version", description=_DESCRIPTION
    )
    parser.set_defaults(run=_gate, parser=parser)
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", default=[Path("submissions")]
    )
    parser.add_argument(
        "--base",
        required=True,
        metavar="REV|FILE",
        help="a git revision to run again, or a file of reports (check --json) or speed results",
    )
    parser.add_argument(
        "--allow-new", action="store_true", help="let pass what the base does not have"
    )
    parser.add_argument("--all", action="store_true", help="evaluate what did not change as well")
    parser.add_argument(
        "--results",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help="where this version's speed results are, for a FILE of those (default: %(default)s)",
    )
    add_problem_options(parser)
    add_evaluation_options(parser)


def _gate(options: argparse.Namespace) -> int:
    check_sandbox(options.readable, untrusted=options.untrusted)
    manner = Manner(
        device=devices.choose(options.device),
        grid=options.grid,
        seed=fresh_seed() if options.seed is None else options.seed,
        deadlines=Deadlines(step=options.step_seconds),
        jobs=options.jobs,
        allow_new=options.allow_new,
        readable=tuple(options.readable),
        untrusted=options.untrusted,
    )
    try:
        thresholds = settings.read(Path.cwd())
        with tempfile.TemporaryDirectory(prefix="harness-gate-") as folder:
            comparison = _comparison(options, manner, Path(folder))
            notes = (*comparison.notes, *_strangers(thresholds, options))
            how = f"on the {manner.device}, {comparison.values}"
            print(f"gate: this tree against {comparison.title}, {how}", flush=True)
            decisions = decide(comparison.plan.pairs, manner, comparison.evidence, thresholds)
    except (settings.SettingsError, RecordError, RevisionError) as error:
        raise UsageError(str(error)) from None
    decisions += [
        Decision(rejected.path.stem, "", Change("refused", "", rejected.message), rejected.path)
        for rejected in comparison.plan.rejected
    ]
    _tell(comparison, decisions, notes)
    return NOT_PASSED if any(decision.is_worse for decision in decisions) else PASSED


def _comparison(options: argparse.Namespace, manner: Manner, folder: Path) -> Comparison:
    problems = problems_of(options)
    file = Path(options.base)
    if file.is_file():
        return with_file(file, options.paths, problems, options.results, everything=options.all)
    return with_revision(
        options.base, options.paths, problems, manner, folder, everything=options.all
    )


def _strangers(thresholds: settings.Thresholds, options: argparse.Namespace) -> Iterator[str]:
    """A line for each problem with a threshold of its own that no reference has the name of."""
    if not thresholds.problems:
        return
    known = {problem.name for problem in references_of(options)}
    for name in sorted(thresholds.problems.keys() - known):
        yield (
            f"pyproject.toml has a threshold for {name}, which is none of the references; there "
            f"are {', '.join(sorted(known))}"
        )


def _tell(comparison: Comparison, decisions: Sequence[Decision], notes: Iterable[str]) -> None:
    """Say it on the terminal and, under GitHub Actions, beside the files and in the summary."""
    unchanged = sum(not pair.is_changed for pair in comparison.plan.pairs)
    closing = render.summary(decisions, unchanged)
    for note in filter(None, (sandbox_note(), *notes)):
        print(one_line(f"note: {note}"))
    if decisions:
        print(f"\n{render.terminal(decisions)}\n")
    print(closing)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in render.workflow_commands(decisions):
            print(line)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        table = f"{render.github(decisions)}\n\n" if decisions else ""
        with Path(summary).open("a") as file:
            file.write(f"### Gate: against {comparison.title}\n\n{table}{closing}\n")
