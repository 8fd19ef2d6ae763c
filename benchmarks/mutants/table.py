"""The table of what became of mutants, as Markdown."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

from mutants.outcome import Outcome

_HEAD = """\
# How many small mistakes are found

Submissions with one small change each, drawn with a seed, are checked on the simulator as any
submission is (`quick` grid). `benchmarks/mutation.py` says how; this file is its output:

    PYTHONPATH=. python benchmarks/mutation.py run docs/mutants.jsonl --seed {seed} --each N
    PYTHONPATH=. python benchmarks/mutation.py table docs/mutants.jsonl --words docs/mutants.toml

`equivalent` ones compile to the same PTX and host code as the submission; `equivalent by hand` ones
do what it does for every input that constructor and forward accept, and the reason stands beside
them. What a `survived` one needs is said there too. Diagnoses are judged by a person, who knows the
change: `right` names it or what it amounts to, `vague` is true and tells little, `none` is
silence."""


def table(outcomes: Sequence[Outcome], words: Path | None) -> str:
    """Everything that is worth reading about some mutants.

    Args:
        outcomes: What became of them.
        words: A TOML file with what a person says: under `equivalent` and `survived` a reason by
            the mutant's id, under `diagnosis` "right", "vague" or "wrong"; the draw's `seed`, and a
            `note` on the whole.

    Raises:
        OSError: The file cannot be read.
        tomllib.TOMLDecodeError: It is no TOML.
    """
    said = tomllib.loads(words.read_text()) if words else {}
    by_hand = said.get("equivalent", {})
    fates = {o.mutant.id: _fate(o, by_hand) for o in outcomes}
    reasons = {**by_hand, **said.get("survived", {})}
    diagnoses = Counter(_judged(o, said.get("diagnosis", {})) for o in outcomes if o.numbers)
    return "\n\n".join(
        (
            _HEAD.format(seed=said.get("seed", "SEED")),
            *([said["note"]] if "note" in said else ()),
            "## What became of them",
            _by_submission(outcomes, fates),
            "## What the killed ones were killed by",
            _counts(o.by for o in outcomes if o.fate == "killed"),
            "## Diagnoses of the killed ones with wrong numbers",
            _counts(diagnoses.elements()),
            "## Those that were not killed",
            _survivors(outcomes, fates, reasons),
            "## Diagnoses",
            _diagnosed(outcomes, said.get("diagnosis", {})),
            "## By kind of change",
            _by_kind(outcomes, fates),
        )
    )


def _fate(outcome: Outcome, by_hand: Mapping[str, str]) -> str:
    is_same = outcome.fate == "survived" and outcome.mutant.id in by_hand
    return "equivalent by hand" if is_same else outcome.fate


def _judged(outcome: Outcome, said: Mapping[str, str]) -> str:
    return said.get(outcome.mutant.id, "not judged") if outcome.diagnosis else "none"


def _by_submission(outcomes: Sequence[Outcome], fates: Mapping[str, str]) -> str:
    names = sorted({_submission(o) for o in outcomes})
    columns = sorted(set(fates.values()))
    rows = [
        [
            name,
            *(
                sum(fates[o.mutant.id] == c for o in outcomes if _submission(o) == name)
                for c in columns
            ),
        ]
        for name in names
    ]
    total = ["all", *(sum(fate == c for fate in fates.values()) for c in columns)]
    return tabulate([*rows, total], ["submission", *columns], "github")


def _submission(outcome: Outcome) -> str:
    return outcome.mutant.id.rsplit("-", 1)[0]


def _counts(words: Iterable[str]) -> str:
    return tabulate(Counter(words).most_common(), ["", "mutants"], "github")


def _survivors(
    outcomes: Sequence[Outcome], fates: Mapping[str, str], reasons: Mapping[str, str]
) -> str:
    rows = [
        [o.mutant.id, fates[o.mutant.id], o.mutant.kind, *_change(o), reasons.get(o.mutant.id, "")]
        for o in outcomes
        if o.fate in ("survived", "noted", "refuses more", "looser class", "equivalent")
    ]
    return tabulate(rows, ["mutant", "", "kind", "line", "change", "why"], "github")


def _change(outcome: Outcome) -> tuple[int, str]:
    mutant = outcome.mutant
    # A vertical bar would end the cell.
    return mutant.line, f"`{mutant.before}` to `{mutant.after}`".replace("|", "\\|")


def _diagnosed(outcomes: Sequence[Outcome], said: Mapping[str, str]) -> str:
    rows = [
        [o.mutant.id, *_change(o), re.split("[:;]", o.diagnosis)[0], _judged(o, said)]
        for o in outcomes
        if o.diagnosis
    ]
    return tabulate(rows, ["mutant", "line", "change", "diagnosis", ""], "github")


def _by_kind(outcomes: Sequence[Outcome], fates: Mapping[str, str]) -> str:
    kinds = sorted({o.mutant.kind for o in outcomes})
    rows = [
        [
            kind,
            sum(o.mutant.kind == kind for o in outcomes),
            sum(o.mutant.kind == kind and fates[o.mutant.id] == "killed" for o in outcomes),
            sum(o.mutant.kind == kind and fates[o.mutant.id] == "survived" for o in outcomes),
        ]
        for kind in kinds
    ]
    return tabulate(rows, ["kind", "drawn", "killed", "survived"], "github")
