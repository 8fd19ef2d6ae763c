"""References of many kinds, with right and wrong versions that are judged in this process.

A version is the reference with another body of `forward`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.problems.problem import ProblemError, load
from tests.judge_alone import every_case, first_wrong, version
from tests.support import harness, thorough_but
from tests.versions import VERSIONS

REFERENCES = Path(__file__).parent / "references"

# Wrong versions that pass, by reference; docs/figures.md says why.
LET_THROUGH = {"gelu": {"by tanh"}}
# Right versions are judged in one case of this many. Each size still occurs in some of them.
EVERY = 6
QUICK = {"relu", "linear_gelu", "softmax", "sum_over_dim", "layer_norm"}
REFUSED = {
    "dropout": r"forward draws random numbers \(bernoulli_\)",
    "named_outputs": "forward returns dict; have it return one tensor, or a tuple or list",
}


def test_every_reference_is_judged_or_refused() -> None:
    """Each file of tests/references either is expected to be refused, or has versions to judge.

    A file with versions has at least three wrong ones and one right one.
    """
    names = {path.stem for path in REFERENCES.glob("*.py")}
    assert names == {*VERSIONS, *REFUSED}
    for name, versions in VERSIONS.items():
        assert len(versions.wrong) >= 3, name
        assert versions.right, name


@pytest.mark.parametrize("name", thorough_but(QUICK, VERSIONS))
def test_versions_are_told_apart(name: str, tmp_path: Path) -> None:
    """Each wrong version of a reference is wrong in some case.

    Each right version is in the precision class fp32 in every case that is tried.
    """
    path = REFERENCES / f"{name}.py"
    reference = load(path)
    wrong = {
        each: version(path, forward, tmp_path) for each, forward in VERSIONS[name].wrong.items()
    }
    right = {
        each: version(path, forward, tmp_path) for each, forward in VERSIONS[name].right.items()
    }
    cases = every_case(reference)
    some = cases[::EVERY]
    told = first_wrong(reference, {**wrong, **right}, some, tightest=[*right])
    assert not {each: told[each] for each in right if told[each]}
    # Most wrong versions fail in these cases already, so that few need the others.
    left = {each: problem for each, problem in wrong.items() if not told[each]}
    told |= first_wrong(reference, left, [case for case in cases if case not in some])
    assert {each for each in wrong if not told[each]} == LET_THROUGH.get(name, set())
    assert not [each for each in told.values() if "raises" in each]


@pytest.mark.parametrize("name", REFUSED)
def test_reference_that_cannot_be_judged_is_refused_by_name(name: str, tmp_path: Path) -> None:
    """A reference that cannot be judged is refused before any build, in one line."""
    path = REFERENCES / f"{name}.py"
    with pytest.raises(ProblemError, match=REFUSED[name]):
        load(path)
    done = harness("check", "--reference", str(path), str(path), folder=tmp_path)
    assert done.status == 2
    assert "Traceback" not in done.err
    assert done.err.count("\n") == 1, done.err
