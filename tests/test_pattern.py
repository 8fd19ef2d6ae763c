from pathlib import Path

import pytest

from harness.judging.pattern import smallest, what_failing_cases_share
from harness.problems.discovery import Kind, Parameter, Submission
from harness.problems.grid import Case, Convolution, cases_for
from harness.problems.problem import load

REFERENCE = Path(__file__).parents[1] / "reference"
ANY = Submission(
    "kernel", Path("kernel.py"), "0" * 64, (Parameter("rest", Kind.VAR_KEYWORD, required=False),)
)


@pytest.fixture(scope="module")
def cases() -> tuple[Case, ...]:
    return cases_for(load(REFERENCE / "conv_transpose1d.py"), ANY)


def ids(cases: tuple[Case, ...], fails: object) -> list[str]:
    assert callable(fails)
    return [case.id for case in cases if fails(case.convolution)]


@pytest.mark.parametrize(
    ("fails", "sentence"),
    [
        (lambda c: c.stride > 1, "all {n} with stride > 1 fail; none with stride 1"),
        (lambda c: c.stride > 2, "all {n} with stride > 2 fail; none with stride 2 or less"),
        (lambda c: c.stride == 2, "all {n} with stride 2 fail; none of the others"),
        (lambda c: c.bias, "all {n} with bias fail; none without bias"),
        (lambda c: not c.bias, "all {n} with no bias fail; none with bias"),
        (lambda c: c.batch > 1, "all {n} with batch > 1 fail; none with batch 1"),
        (
            lambda c: c.kernel_size < c.stride,
            "all {n} with a kernel smaller than the stride fail; none of the others",
        ),
        (lambda c: c.groups == 2, "all {n} with groups 2 fail; none of the others"),
        (
            lambda c: c.stride > 1 and c.padding > 0,
            "all {n} with stride > 1 and padding > 0 fail; none of the others",
        ),
    ],
)
def test_finds_what_separates(cases: tuple[Case, ...], fails: object, sentence: str) -> None:
    """One property, or two together, that the failing cases have and no other case has."""
    failed = ids(cases, fails)
    assert what_failing_cases_share(cases, failed) == sentence.format(n=len(failed))


def test_says_the_nearest_when_nothing_separates(cases: tuple[Case, ...]) -> None:
    """An exception on either side does not hide the property behind the failures."""
    failed = ids(cases, lambda c: c.stride > 1)
    passed_by_luck, failed_besides = failed[4], ids(cases, lambda c: c.stride == 1)[3]
    odd = [case for case in failed if case != passed_by_luck] + [failed_besides]
    rest = len(cases) - len(failed)
    assert what_failing_cases_share(cases, odd) == (
        f"{len(failed) - 1} of {len(failed)} with stride > 1 fail; 1 of the {rest} others"
    )


def test_says_when_all_fail(cases: tuple[Case, ...]) -> None:
    """No property is needed when every case fails."""
    sentence = what_failing_cases_share(cases, [case.id for case in cases])
    assert sentence == f"all {len(cases)} cases fail"


def test_says_nothing_of_none_or_one(cases: tuple[Case, ...]) -> None:
    """No failure has no pattern, and a single one fits too many to mean anything."""
    assert what_failing_cases_share(cases, []) == ""
    assert what_failing_cases_share(cases, [cases[5].id]) == ""
    assert what_failing_cases_share(cases[:1], [cases[0].id]) == ""


def test_says_nothing_of_what_has_no_pattern(cases: tuple[Case, ...]) -> None:
    """Failures that are scattered over the grid are not forced into a sentence."""
    scattered = [case.id for case in sorted(cases, key=lambda case: case.seed)[::4]]
    assert what_failing_cases_share(cases, scattered) == ""


def test_ignores_ids_that_are_no_case(cases: tuple[Case, ...]) -> None:
    """A declined case is not among the cases, and does not count as a failure."""
    failed = ids(cases, lambda c: c.stride > 1)
    some = tuple(case for case in cases if case.id != failed[0])
    sentence = what_failing_cases_share(some, failed)
    assert sentence == f"all {len(failed) - 1} with stride > 1 fail; none with stride 1"


def test_smallest_needs_the_least_work(cases: tuple[Case, ...]) -> None:
    """The case that is handed to the author is the one with the fewest multiply-adds."""
    least = min(case.convolution.work for case in cases)
    assert smallest(cases).convolution.work == least
    assert smallest(cases) == smallest(cases[::-1])


def test_smallest_prefers_neutral_parameters() -> None:
    """Of two with as much work, the one with fewer parameters in play is easier to follow."""
    base = {"in_channels": 1, "out_channels": 1, "kernel_size": 1}
    plain = Case("z", "grid", base, ((1, 1, 3),), ("float32",), 0)
    cropped = Case("a", "grid", {**base, "padding": 1}, ((1, 1, 5),), ("float32",), 0)
    assert plain.convolution.work == cropped.convolution.work
    assert smallest([cropped, plain]) is plain


def test_smallest_of_other_references_has_the_fewest_elements() -> None:
    """Without convolution sizes, the inputs' size decides."""
    small = Case("b", "reduced", {}, ((2, 3),), ("float32",), 0)
    large = Case("a", "native", {}, ((2, 4),), ("float32",), 0)
    assert smallest([large, small]) is small
    assert what_failing_cases_share([large, small], ["a", "b"]) == "all 2 cases fail"


def test_smallest_of_nothing_is_an_error() -> None:
    """The caller has no failing case: that is its mistake, and is said."""
    with pytest.raises(ValueError, match="no cases"):
        smallest([])


def test_sizes_are_spelled_as_words() -> None:
    """Output length is told in words, as is every size that is no constructor parameter."""
    lengths = (1, 2, 3, 4)
    cases = [
        Case(
            f"l{n}",
            "grid",
            {"in_channels": 1, "out_channels": 1, "kernel_size": 1},
            ((1, 1, n),),
            ("float32",),
            0,
        )
        for n in lengths
    ]
    assert cases[0].convolution == Convolution(1, 1, 1, 1, 1)
    assert what_failing_cases_share(cases, ["l3", "l4"]) == (
        "all 2 with length > 2 fail; none with length 2 or less"
    )


def test_what_most_others_do_too_is_no_pattern(cases: tuple[Case, ...]) -> None:
    """That short outputs fail tells nothing where nearly all the long ones fail as well."""
    by_length = sorted(cases, key=lambda case: (case.convolution.output_length, case.id))
    passing = {case.id for case in by_length[-20::7]}
    failed = [case.id for case in cases if case.id not in passing]
    assert what_failing_cases_share(cases, failed) == ""


def test_one_case_that_is_right_makes_no_pattern(cases: tuple[Case, ...]) -> None:
    """Whatever that case has and no other has would be said of all of them."""
    all_but_one = [case.id for case in cases][1:]
    assert what_failing_cases_share(cases, all_but_one) == ""
