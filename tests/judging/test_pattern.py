"""The property that failing cases share, and the smallest failing case."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.judging.pattern import smallest, what_failing_cases_share
from harness.problems.configuration import ConstructorCall
from harness.problems.discovery import ConstructorParameter, Kind, Submission
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.grid import Case, cases_for
from harness.problems.problem import load
from harness.problems.surroundings import move_for
from tests.support import REFERENCE

ANY = Submission(
    "kernel",
    Path("kernel.py"),
    "0" * 64,
    (ConstructorParameter("rest", Kind.VAR_KEYWORD, required=False),),
)


@pytest.fixture(scope="module")
def cases() -> tuple[Case, ...]:
    return cases_for(load(REFERENCE / "conv_transpose1d.py"), ANY)


def convolution(name: str, shape: tuple[int, ...], **arguments: int) -> Case:
    """Return a case of a transposed convolution with an id, an input shape and arguments."""
    return Case(
        id=name,
        label="grid",
        arguments=arguments,
        input_shapes=(shape,),
        input_dtypes=("float32",),
        seed=0,
        family="conv_transpose1d",
        constructor_call=ConstructorCall((), arguments),
    )


def ids(cases: tuple[Case, ...], fails: object) -> list[str]:
    """Return the ids of the cases for whose convolution `fails` is true."""
    assert callable(fails)
    return [case.id for case in cases if fails(Convolution.of(case))]


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
    """The pattern names one or two properties that all failing cases have and no other case has."""
    failed = ids(cases, fails)
    assert what_failing_cases_share(cases, failed) == sentence.format(n=len(failed))


def test_says_the_nearest_when_nothing_separates(cases: tuple[Case, ...]) -> None:
    """The sentence names a property even if a failing case lacks it and a passing one has it."""
    failed = ids(cases, lambda c: c.stride > 1)
    passed_by_luck, failed_besides = failed[4], ids(cases, lambda c: c.stride == 1)[3]
    odd = [case for case in failed if case != passed_by_luck] + [failed_besides]
    rest = len(cases) - len(failed)
    assert what_failing_cases_share(cases, odd) == (
        f"{len(failed) - 1} of {len(failed)} with stride > 1 fail; 1 of the {rest} others"
    )


def test_says_nothing_when_all_fail(cases: tuple[Case, ...]) -> None:
    """If every case fails, no property separates them, and the summary counts them."""
    assert what_failing_cases_share(cases, [case.id for case in cases]) == ""


def test_says_nothing_of_none_or_one(cases: tuple[Case, ...]) -> None:
    """No failing case, or a single one, gives no sentence on a common property."""
    assert what_failing_cases_share(cases, []) == ""
    assert what_failing_cases_share(cases, [cases[5].id]) == ""
    assert what_failing_cases_share(cases[:1], [cases[0].id]) == ""


def test_says_nothing_of_what_has_no_pattern(cases: tuple[Case, ...]) -> None:
    """Failing cases scattered over the grid give no sentence on a common property."""
    scattered = [case.id for case in sorted(cases, key=lambda case: case.seed)[::4]]
    assert what_failing_cases_share(cases, scattered) == ""


def test_ignores_ids_that_are_no_case(cases: tuple[Case, ...]) -> None:
    """Failed ids that are not among the given cases do not count as failures."""
    failed = ids(cases, lambda c: c.stride > 1)
    some = tuple(case for case in cases if case.id != failed[0])
    sentence = what_failing_cases_share(some, failed)
    assert sentence == f"all {len(failed) - 1} with stride > 1 fail; none with stride 1"


def test_smallest_needs_the_least_work(cases: tuple[Case, ...]) -> None:
    """The smallest case is the one with the fewest multiply-adds."""
    least = min(Convolution.of(case).work for case in cases)
    assert Convolution.of(smallest(cases)).work == least
    assert smallest(cases) == smallest(cases[::-1])


def test_smallest_prefers_neutral_parameters() -> None:
    """Among cases of equal work, the one with more default parameters is smaller."""
    base = {"in_channels": 1, "out_channels": 1, "kernel_size": 1}
    plain = convolution("z", (1, 1, 3), **base)
    cropped = convolution("a", (1, 1, 5), **base, padding=1)
    assert Convolution.of(plain).work == Convolution.of(cropped).work
    assert smallest([cropped, plain]) is plain


def test_smallest_of_other_references_has_the_fewest_elements() -> None:
    """The case with the fewest elements is smallest if the reference is not a convolution."""
    small = replace(convolution("b", (2, 3)), family="any_reference")
    large = replace(convolution("a", (2, 4)), family="any_reference")
    assert smallest([large, small]) is small
    assert what_failing_cases_share([large, small], ["a", "b"]) == ""


def test_smallest_of_nothing_is_an_error() -> None:
    """The smallest of no cases raises ValueError."""
    with pytest.raises(ValueError, match="no cases"):
        smallest([])


def test_sizes_are_spelled_as_words() -> None:
    """The sentence spells sizes as words ("out channels"), and parameters as in the code."""
    sizes = {"in_channels": 1, "out_channels": 1, "kernel_size": 1}
    cases = [convolution(f"l{n}", (1, 1, n), **sizes) for n in (1, 2, 3, 4)]
    assert Convolution.of(cases[0]) == Convolution(1, 1, 1, 1, 1)
    assert what_failing_cases_share(cases, ["l3", "l4"]) == (
        "all 2 with length > 2 fail; none with length 2 or less"
    )
    wider = [convolution(f"k{n}", (1, 1, 4), **{**sizes, "out_channels": n}) for n in (1, 2, 3, 4)]
    assert what_failing_cases_share(wider, ["k3", "k4"]) == (
        "all 2 with out channels > 2 fail; none with out channels 2 or less"
    )
    padded = [convolution(f"p{n}", (1, 1, 9), **sizes, output_padding=n) for n in (0, 1, 2, 3)]
    assert what_failing_cases_share(padded, ["p2", "p3"]) == (
        "all 2 with output_padding > 1 fail; none with output_padding 1 or less"
    )


def test_what_most_others_do_too_is_no_pattern(cases: tuple[Case, ...]) -> None:
    """A property of failing cases is not named if nearly all other cases fail as well."""
    by_length = sorted(cases, key=lambda case: (Convolution.of(case).output_length, case.id))
    passing = {case.id for case in by_length[-20::7]}
    failed = [case.id for case in cases if case.id not in passing]
    assert what_failing_cases_share(cases, failed) == ""


def test_one_case_that_is_right_makes_no_pattern(cases: tuple[Case, ...]) -> None:
    """If a single case passes, no property is named, since many properties fit one case."""
    all_but_one = [case.id for case in cases][1:]
    assert what_failing_cases_share(cases, all_but_one) == ""


def test_move_of_the_model_is_named(cases: tuple[Case, ...]) -> None:
    """If exactly the cases with one way of moving the model fail, that way is the pattern."""
    failed = [case.id for case in cases if move_for(case) == "to('cuda')"]
    told = what_failing_cases_share(cases, failed)
    assert told == f"all {len(failed)} with the model moved by to('cuda') fail; none of the others"
