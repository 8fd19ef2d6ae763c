"""The execution of `harness gate`: compares submissions with old versions, prints the decisions."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.cli.options import (
    NOT_PASSED,
    PASSED,
    engine_choice,
    reference_paths,
    sandbox_note,
)
from harness.compiler.tried import torch_note
from harness.gate import render, settings
from harness.gate.decision import Change, Decision
from harness.gate.revision import content_at
from harness.gate.run import GateOptions, decide
from harness.gate.sources import GateComparison, with_file, with_revision
from harness.options import Options
from harness.problems.references import load_references, named
from harness.report_page.data import pairs_of
from harness.report_page.page import page, target
from harness.requesting import Requests
from harness.sandbox import layers
from harness.speed.result import of_problems
from harness.system.errors import UsageError
from harness.system.escape import markdown
from harness.system.files import write_whole
from harness.system.output import say


def gate(options: argparse.Namespace) -> int:
    """Run `harness gate` with parsed options, print the decisions, and return the exit status."""
    layers.require_for(options.readable, untrusted=options.untrusted and not options.scheduler)
    engine = engine_choice(options)
    hardware = engine.hardware(options.device)
    gate_options = GateOptions(
        requests=Requests.of(Options.of(options), hardware.device),
        jobs=options.jobs or hardware.jobs,
        engine=engine,
        allow_new=options.allow_new,
    )
    asked = settings.read(Path.cwd())
    thresholds = asked.no_looser_than(_of_base(options, asked))
    with tempfile.TemporaryDirectory(prefix="harness-gate-") as folder:
        comparison = _comparison(options, gate_options, Path(folder))
        notes = (
            *comparison.notes,
            *_unknown_problems(asked, options),
            *_loosened(asked, thresholds),
        )
        how = f"on the {hardware.device}, {comparison.values}"
        say(f"gate: this tree against {comparison.title}, {how}", sys.stdout)
        decisions = decide(comparison.plan.pairs, gate_options, comparison.evidence, thresholds)
    decisions += [
        Decision(rejected.path.stem, "", Change("refused", "", rejected.message), rejected.path)
        for rejected in comparison.plan.rejected
    ]
    _tell(comparison, decisions, notes)
    if options.html:
        _write(options, decisions, f"This tree against {comparison.title}")
    return NOT_PASSED if any(decision.is_worse for decision in decisions) else PASSED


def _write(options: argparse.Namespace, decisions: Sequence[Decision], subtitle: str) -> None:
    """Write the HTML page of the evaluated submissions to the file of `--html`.

    Raises:
        UsageError: The file cannot be written.
    """
    file = target(options.html)
    measured = of_problems(options.results, {decision.problem for decision in decisions})
    pairs = [
        replace(pair, base=decision.base, change=decision.change)
        for decision in decisions
        if decision.head
        for pair in pairs_of([decision.head], measured)
    ]
    try:
        write_whole(file, page(pairs, subtitle))
    except OSError as error:
        raise UsageError(f"--html {file}: {error.strerror}") from None


def _comparison(
    options: argparse.Namespace, gate_options: GateOptions, folder: Path
) -> GateComparison:
    problems = named(load_references(reference_paths(options)), options.problem)
    file = Path(options.base)
    if file.is_file():
        return with_file(file, options.paths, problems, options.results, everything=options.all)
    return with_revision(
        options.base, options.paths, problems, gate_options, folder, everything=options.all
    )


def _of_base(options: argparse.Namespace, asked: settings.Thresholds) -> settings.Thresholds:
    """Return the thresholds in the base revision's pyproject.toml, or the defaults.

    If the base is a file of records, it has no pyproject.toml. Then `asked` is returned, which has
    the thresholds of the working tree.

    For each problem, the caller uses the smaller threshold of working tree and base. So a change
    that loosens a threshold is not judged by the looser threshold.
    """
    if Path(options.base).is_file():
        return asked
    content = content_at(options.base, Path(settings.FILE))
    try:
        return settings.parsed(content or b"", Path(settings.FILE))
    except settings.SettingsError:
        # The base's settings are invalid, so no earlier comparison used them. Its thresholds are
        # then the defaults.
        return settings.Thresholds()


def _loosened(asked: settings.Thresholds, used: settings.Thresholds) -> Iterator[str]:
    """Yield a note if a threshold in the working tree is larger than the threshold in use."""
    names = ("", *used.problems)
    if any(asked.of(name) > used.of(name) for name in names):
        yield (
            f"{settings.FILE} has looser thresholds than the base; the base's thresholds "
            "decide until this version is the base"
        )


def _unknown_problems(
    thresholds: settings.Thresholds, options: argparse.Namespace
) -> Iterator[str]:
    """Yield a note for each threshold in the settings for a problem that no reference defines."""
    if not thresholds.problems:
        return
    known = {problem.name for problem in load_references(reference_paths(options))}
    for name in sorted(thresholds.problems.keys() - known):
        yield (
            f"pyproject.toml: there is a threshold for {name}, which is not a reference; "
            f"the references are {', '.join(sorted(known))}"
        )


def _tell(comparison: GateComparison, decisions: Sequence[Decision], notes: Iterable[str]) -> None:
    """Print the decisions; under GitHub Actions, also annotate files and write the job summary."""
    unchanged = sum(not pair.is_changed for pair in comparison.plan.pairs)
    closing = render.summary(decisions, unchanged)
    for note in filter(None, (torch_note(), sandbox_note(), *notes)):
        say(f"note: {note}", sys.stdout)
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
            file.write(f"### Gate: against {markdown(comparison.title)}\n\n{table}{closing}\n")
