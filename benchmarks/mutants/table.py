"""Markdown tables of the outcomes of mutants: a summary, and a list of single mutants."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from mutants.outcome import Outcome

_HEAD = """\
# Mutants one by one

This file lists the mutants of one draw. [docs/figures.md](../docs/figures.md#mutants) summarises
them, and explains the outcomes. These two commands make the file:

    PYTHONPATH=. python benchmarks/mutation.py run results/mutants.jsonl --seed {seed} --each N
    PYTHONPATH=. python benchmarks/mutation.py list results/mutants.jsonl \\
        --words results/mutants.toml > results/mutants.md"""


def summary(outcomes: Sequence[Outcome], words: Path | None) -> str:
    """Return Markdown tables that count mutants by outcome, by what killed them, and by diagnosis.

    Args:
        outcomes: Outcomes of the mutants.
        words: As in `listing`.

    Raises:
        OSError: The file `words` cannot be read.
        tomllib.TOMLDecodeError: The file `words` is not TOML.
    """
    judged = _judgements(words)
    diagnosed = Counter(_judged(o, judged.get("diagnosis", {})) for o in outcomes if o.numbers)
    return "\n\n".join(
        (
            "### What became of them",
            _by_submission(outcomes, _fates(outcomes, judged)),
            "### What killed them",
            _counts(o.by for o in outcomes if o.fate == "killed"),
            "### Diagnoses of those with wrong numbers",
            _counts(diagnosed.elements()),
        )
    )


def listing(outcomes: Sequence[Outcome], words: Path | None) -> str:
    """Return Markdown tables of the mutants that were not killed, and of the diagnoses.

    A third table counts mutants by kind of mistake.

    Args:
        outcomes: Outcomes of the mutants.
        words: A TOML file with a person's judgement, or None. Its tables `equivalent` and
            `survived` map a mutant's id to the reason why the mutant was not killed. Its table
            `diagnosis` maps the id to "right", "vague" or "wrong". Its key `seed` is the seed of
            the draw.

    Raises:
        OSError: The file `words` cannot be read.
        tomllib.TOMLDecodeError: The file `words` is not TOML.
    """
    judged = _judgements(words)
    fates = _fates(outcomes, judged)
    reasons = {**judged.get("equivalent", {}), **judged.get("survived", {})}
    return "\n\n".join(
        (
            _HEAD.format(seed=judged.get("seed", "SEED")),
            "## Mutants that were not killed",
            _survivors(outcomes, fates, reasons),
            "## Diagnoses",
            _diagnosed(outcomes, judged.get("diagnosis", {})),
            "## By kind of change",
            _by_kind(outcomes, fates),
        )
    )


def _judgements(words: Path | None) -> Mapping[str, Any]:
    return tomllib.loads(words.read_text()) if words else {}


def _fates(outcomes: Sequence[Outcome], judged: Mapping[str, Any]) -> Mapping[str, str]:
    by_hand = judged.get("equivalent", {})
    return {o.mutant.id: _fate(o, by_hand) for o in outcomes}


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
    # A vertical bar would end the table's cell.
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
