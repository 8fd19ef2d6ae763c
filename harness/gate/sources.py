"""From what the command line names to what there is to compare, and by which evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.gate.before import recorded
from harness.gate.evidence import Evidence, Measured, Recorded, counted
from harness.gate.plan import GatePlan, in_tree, plan
from harness.gate.revision import Tree, export
from harness.gate.run import GateOptions
from harness.problems.discovery import Discovery, discover
from harness.problems.problem import Problem
from harness.speed.measure import measure
from harness.system.files import require

# For the rounds of one pair on a GPU: two versions need fewer than a submission and six baselines.
_SECONDS = 20.0


@dataclass(frozen=True)
class Comparison:
    """What to compare.

    Attributes:
        title: What the base is, for people.
        values: Where the values come from that submissions are run with.
        plan: Both sides.
        evidence: What decides on speed.
        notes: What is worth knowing, a line each.
    """

    title: str
    values: str
    plan: GatePlan
    evidence: Evidence
    notes: tuple[str, ...] = ()


def with_file(
    file: Path,
    paths: Sequence[Path],
    problems: Sequence[Problem],
    results: Path,
    *,
    everything: bool,
) -> Comparison:
    """Compare with what was recorded; `results` is the folder of this version's.

    Raises:
        harness.gate.before.RecordError: the file is none of records.
        UsageError: there is nothing under the paths.
    """
    wanted = {problem.name for problem in problems}
    base = {key: before for key, before in recorded(file).items() if key[1] in wanted}
    head = _head(paths, paths)
    found = plan(head, problems, base, everything=everything)
    title, values = f"the records in {file}", "grid and seed as recorded"
    return Comparison(title, values, found, Recorded(results), tuple(_renames(found)))


def with_revision(
    revision: str,
    paths: Sequence[Path],
    problems: Sequence[Problem],
    options: GateOptions,
    folder: Path,
    *,
    everything: bool,
) -> Comparison:
    """Compare with an older tree, which is put into an empty folder to be run again.

    Raises:
        harness.gate.revision.RevisionError: there is no such revision.
        UsageError: there is nothing under the paths.
    """
    references = [problem.path for problem in problems]
    tree = export(revision, paths, references, folder.resolve())
    older = [there for path in paths if (there := tree.where(path))]
    old = discover(older) if older else Discovery((), ())
    head = _head(paths, [path for path in paths if tree.where(path) is None])
    changed = tree.changed()
    beside = _beside(changed, tree, references, head, old)
    # A file that is no submission, and was none, is nobody's fault today.
    head = Discovery(head.submissions, tuple(r for r in head.rejected if r.path in changed))
    base = in_tree(tree, old.submissions, problems)
    found = plan(head, problems, base, everything=everything or bool(beside))
    notes = (
        *_renames(found),
        *(
            f"{path.relative_to(tree.root)} changed beside the submissions: all of them are "
            "evaluated"
            for path in beside[:1]
        ),
    )
    values = f"grid {options.grid}, seed {options.seed}"
    return Comparison(f"{revision} ({tree.commit[:12]})", values, found, _evidence(options), notes)


def _renames(found: GatePlan) -> Iterator[str]:
    for new, old in sorted(found.renamed.items()):
        yield f"{new} takes the place of {old}, and is compared with it"


def _evidence(options: GateOptions) -> Evidence:
    if options.device == "simulator":
        return counted
    return Measured(measure, options.request, _SECONDS)


def _head(paths: Sequence[Path], required: Iterable[Path]) -> Discovery:
    """What lies under the paths that are there; those that are required must be."""
    require(required)
    there = [path for path in paths if path.exists()]
    found = discover(there) if there else Discovery((), ())
    # A folder without submissions: they may all have been removed.
    return Discovery(found.submissions, tuple(r for r in found.rejected if not r.path.is_dir()))


def _beside(
    changed: Iterable[Path],
    tree: Tree,
    references: Sequence[Path],
    head: Discovery,
    old: Discovery,
) -> list[Path]:
    """Files that changed and that any submission may use: headers, sources of load()."""
    accounted = {
        *references,
        *(submission.path for submission in head.submissions),
        *(rejected.path for rejected in head.rejected),
        *(tree.root / s.path.relative_to(tree.folder) for s in old.submissions),
        *(tree.root / r.path.relative_to(tree.folder) for r in old.rejected),
    }
    return sorted(set(changed) - accounted)
