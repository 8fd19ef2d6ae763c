"""The mutation engine of benchmarks/: the changes that it makes, and which mutants survive."""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from mutants import cuda, python
from mutants.draw import drawn, every
from mutants.equivalence import digest_of
from mutants.mutant import Edit, Mutant, changed
from mutants.outcome import outcome_of
from mutants.table import listing, summary

from harness.finding import Finding
from tests.support import SUBMISSIONS, case, report

if TYPE_CHECKING:
    from pathlib import Path

SUBMISSION = SUBMISSIONS / "grouped_bias.py"
MUTANT = Mutant("mine-1", "constant + 1", "device", 3, Edit(1, 2, "1"), "a[0]", "a[1]")


@pytest.mark.thorough
def test_each_kind_of_change_has_a_place_in_some_submission() -> None:
    """Each kind of change can be made in at least one submission, so none is dead code."""
    found = {m.kind for path in SUBMISSIONS.glob("*.py") for m in every(path)}
    assert found == {*cuda.KINDS, *python.KINDS}


def test_a_draw_is_the_seeds_alone_and_has_no_change_twice() -> None:
    """A draw of mutants depends on the seed alone, and has no change twice.

    So the command that makes a table gives the same mutants on any machine.
    """
    first = drawn(SUBMISSION, 60, seed=5)
    assert first == drawn(SUBMISSION, 60, seed=5)
    assert [m.id for m in first] == [f"grouped_bias-{n}" for n in range(1, 61)]
    assert max(Counter(m.edit for m in first).values()) == 1
    assert [m.edit for m in first] != [m.edit for m in drawn(SUBMISSION, 60, seed=6)]


def test_a_change_of_cuda_stays_inside_its_string_and_one_of_python_is_python() -> None:
    """A mutant differs from its file, parses as Python, and changes CUDA within its string."""
    content = SUBMISSION.read_bytes()
    for mutant in every(SUBMISSION):
        text = changed(content, mutant.edit)
        ast.parse(text)
        assert text != content
        assert text.count(b'"""') == content.count(b'"""')


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("edge of a comparison", "if (index >= shape.total) {", "if (index > shape.total) {"),
        ("dropped guard", "if (numerator < 0) {", ";"),
        (
            "= for +=",
            "sum += x_group[static_cast<int64_t>(c) * shape.in_length + i]",
            "sum = x_group[static_cast<int64_t>(c) * shape.in_length + i]",
        ),
        ("dropped contiguous()", "bias_dense = bias->contiguous();", "bias_dense = *bias;"),
        ("half the constant", "constexpr int kThreadsPerBlock = 256;", None),
        ("Python: another default", "stride: int = 1,", "stride: int = 2,"),
        ("Python: another argument stored", "self.stride = stride", "self.stride = padding"),
    ],
)
def test_a_kind_changes_what_it_says(kind: str, before: str, after: str | None) -> None:
    """Each kind of change does what its name says.

    The tested kinds are those with the most mutants that survived.
    """
    made = {m.after for m in every(SUBMISSION) if (m.kind, m.before) == (kind, before)}
    assert (after or before.replace("256", "128")) in made


def test_what_is_wrong_kills_and_what_is_declined_is_told_apart() -> None:
    """A mutant that passes has survived, unless its report differs from the original's.

    It differs if the mutant declines more cases, has a looser precision class or gets a note. A
    mutant that fails is killed, by the check that found it.
    """
    right, declined = case("passed"), case("declined", "k5")
    usual = [report(right, case("passed", "k5"), verdict="passed")]
    assert outcome_of(MUTANT, usual, usual).fate == "survived"
    fewer = [report(right, declined, verdict="passed")]
    assert outcome_of(MUTANT, fewer, usual).fate == "refuses more"
    looser = [replace(usual[0], precision="tf32")]
    assert outcome_of(MUTANT, looser, usual).fate == "looser class"
    assert outcome_of(MUTANT, usual, looser).fate == "survived"
    noted = [replace(usual[0], notes=("an input without rows: launch failed",))]
    assert outcome_of(MUTANT, noted, usual).fate == "noted"
    finding = Finding("memcheck", "4-byte store past the end", kernel="f")
    wrong = case("failed", "k5", message="memcheck: 4-byte store", findings=(finding,))
    killed = outcome_of(MUTANT, [report(right, wrong, smallest_failure="k5")], usual)
    assert (killed.fate, killed.by, killed.failed) == ("killed", "memcheck", 1)


def test_a_table_has_each_survivor_with_what_a_person_said(tmp_path: Path) -> None:
    """A mutant that a person judged equivalent is counted separately, with the person's reason."""
    usual = [report(case("passed"), verdict="passed")]
    words = tmp_path / "words.toml"
    words.write_text('[equivalent]\nmine-1 = "nobody reads it"\n')
    outcomes = [outcome_of(MUTANT, usual, usual)]
    text = listing(outcomes, words)
    assert "equivalent by hand" in text
    assert "nobody reads it" in text
    assert "equivalent by hand" in summary(outcomes, words)


@pytest.mark.thorough
@pytest.mark.simulator_only
def test_what_compiles_to_the_same_code_has_the_same_digest(tmp_path: Path) -> None:
    """The digest of a submission does not depend on its folder, and differs for another kernel."""
    copy = tmp_path / SUBMISSION.name
    shutil.copy(SUBMISSION, copy)
    assert digest_of(copy) == digest_of(SUBMISSION)
    assert digest_of(SUBMISSIONS / "flat_index.py") != digest_of(SUBMISSION)
