"""The versions to compare and the method of comparison, from the command line's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.gate.before import recorded
from harness.gate.evidence import Measured, Recorded, SpeedEvidence, compare_counters
from harness.gate.plan import GatePlan, VersionPair, in_tree, plan, unread
from harness.gate.revision import Tree, VersionSnapshot, export
from harness.gate.run import GateOptions
from harness.problems.discovery import Discovery, Rejected, discover
from harness.problems.problem import Problem
from harness.system.files import require

# Time for the rounds of one pair on a GPU, in seconds. Two versions need less time than a
# submission and six baselines.
_SECONDS = 20.0


@dataclass(frozen=True)
class GateComparison:
    """A comparison that the gate is to make.

    Attributes:
        title: Description of the old versions, for users, such as a revision and its commit.
        values: Grid and seed with which submissions are run, in words.
        plan: The old and new version of each submission on each problem.
        evidence: The method that compares the speeds of two versions.
        notes: Remarks for the user, one line each.
    """

    title: str
    values: str
    plan: GatePlan
    evidence: SpeedEvidence
    notes: tuple[str, ...] = ()


def with_file(
    file: Path,
    paths: Sequence[Path],
    problems: Sequence[Problem],
    results: Path,
    *,
    everything: bool,
) -> GateComparison:
    """Return the comparison of the submissions under `paths` with the records in a file.

    `results` is the folder with the speed results of the present version.

    Raises:
        harness.gate.before.RecordError: The file cannot be read, or a line is not a record.
        UsageError: A path does not exist.
    """
    wanted = {problem.name for problem in problems}
    base = {key: before for key, before in recorded(file).items() if key[1] in wanted}
    head = _head(paths)
    found = plan(head, problems, base, everything=everything)
    title, values = f"the records in {file}", "grid and seed as recorded"
    return GateComparison(title, values, found, Recorded(results), tuple(_renames(found)))


def with_revision(
    revision: str,
    paths: Sequence[Path],
    problems: Sequence[Problem],
    options: GateOptions,
    folder: Path,
    *,
    everything: bool,
) -> GateComparison:
    """Return the comparison of the submissions under `paths` with a git revision.

    Both versions are exported to `folder`, which must be empty, so that both can be run.

    Raises:
        harness.gate.revision.RevisionError: The repository or the revision does not exist, or a
            path lies outside the repository.
        UsageError: A path exists in neither version.
    """
    references = [problem.path for problem in problems]
    tree = export(revision, paths, references, folder.resolve())
    names = [name for path in paths if (name := tree.name(path)) is not None]
    require(p for p, n in zip(paths, names, strict=True) if not tree.base.where(n))
    old, head = (_on_side(side, names) for side in (tree.base, tree.head))
    changed = tree.changed()
    beside = _beside(changed, tree, references, head, old)
    # A file that is not a submission counts only if this change made it so.
    rejected = [r for r in head.rejected if tree.head.name(r.path) in changed]
    shown = Discovery(head.submissions, tuple(_as_named(r, tree) for r in rejected))
    base = in_tree(tree, old.submissions, problems)
    found = plan(
        shown, problems, base, everything=everything or bool(beside), unread=unread(old.rejected)
    )
    found = replace(found, pairs=tuple(_pair_as_named(pair, tree) for pair in found.pairs))
    notes = (
        *_renames(found),
        *(
            f"{name} changed, which submissions may include: all of them are evaluated"
            for name in beside[:1]
        ),
    )
    requests = options.requests
    values = f"grid {requests.options.grid}, seed {requests.seed}"
    return GateComparison(
        f"{revision} ({tree.commit[:12]})", values, found, _evidence(options), notes
    )


def _on_side(side: VersionSnapshot, names: Sequence[str]) -> Discovery:
    """Return the submissions and the rejected files of one version, at or below some names."""
    there = [path for name in names if (path := side.where(name))]
    found = _without_folders(discover(there) if there else Discovery((), ()))
    outside = tuple(
        Rejected(side.folder / name, f"is a link to {target}, which the repository does not have")
        for name, target in side.outside.items()
        if name.endswith(".py")
    )
    known = {rejected.path for rejected in outside}
    rest = tuple(rejected for rejected in found.rejected if rejected.path not in known)
    return Discovery(found.submissions, (*rest, *outside))


def _as_named(rejected: Rejected, tree: Tree) -> Rejected:
    """Return a rejected file with the path in the working tree, not that of the exported copy."""
    message = rejected.message.replace(str(tree.head.folder), str(tree.root))
    return replace(rejected, path=tree.root / tree.head.name(rejected.path), message=message)


def _pair_as_named(pair: VersionPair, tree: Tree) -> VersionPair:
    if pair.path is None or not pair.path.is_relative_to(tree.head.folder):
        return pair
    return replace(pair, path=tree.root / tree.head.name(pair.path))


def _renames(found: GatePlan) -> Iterator[str]:
    for new, old in sorted(found.renamed.items()):
        yield f"{new} replaces {old}, and is compared with it"


def _evidence(options: GateOptions) -> SpeedEvidence:
    if options.requests.device == "simulator":
        return compare_counters
    return Measured(options.measure, options.requests.request, _SECONDS)


def _head(paths: Sequence[Path]) -> Discovery:
    """Return the submissions and rejected files at or below the paths, which must exist."""
    require(paths)
    return _without_folders(discover(paths))


def _without_folders(found: Discovery) -> Discovery:
    # A folder without submissions is not an error here: this change may have removed them all.
    return Discovery(found.submissions, tuple(r for r in found.rejected if not r.path.is_dir()))


def _beside(
    changed: Iterable[str],
    tree: Tree,
    references: Sequence[Path],
    head: Discovery,
    old: Discovery,
) -> list[str]:
    """Return changed files, such as headers, other than submissions, rejected files, references."""
    accounted = {
        *(tree.name(path) for path in references),
        *_names(tree.head, head),
        *_names(tree.base, old),
    }
    return sorted(set(changed) - accounted)


def _names(side: VersionSnapshot, found: Discovery) -> Iterator[str]:
    yield from (side.name(submission.path) for submission in found.submissions)
    yield from (side.name(rejected.path) for rejected in found.rejected)
