"""Mistakes seen in real submissions, and the verdict that `harness check` gives each."""

from __future__ import annotations

import math

import pytest

from harness.records.picture import Rows
from harness.records.report import CaseReport, Report
from tests.support import ROOT, OnDemand, harness, reports, thorough_but

FOLDER = ROOT / "tests" / "defects"

# Part of the report's message, for defects that stop before they compute a number.
STOPPED = {
    "unknown_keyword": (
        "TypeError: load_inline() got an unexpected keyword argument 'extra_nvcc_flags'"
    ),
    "no_cpp_sources": (
        "TypeError: load_inline() missing 1 required positional argument: 'cpp_sources'"
    ),
    "redeclared_in_initialiser": "cannot appear in its own initializer",
    "undefined_dispatch_type": 'identifier "scalar_type" is undefined',
    "missing_cuda_header": 'namespace "at::cuda" has no member "getCurrentCUDAStream"',
    "bias_registered_twice": "KeyError: attribute 'bias' already exists",
    "module_called": "TypeError: 'module' object is not callable",
    "module_not_imported": "NameError: name 'math' is not defined",
    "defined_as_c": (
        "its extension declares conv_transpose1d_cuda(at::Tensor, at::Tensor) but does not define"
    ),
}

# The diagnosis, and what the failing cases share, for defects that compute wrong numbers.
WRONG = {
    "no_divisibility_test": ("no divisibility test", "stride > 1"),
    "padding_twice": ("padding applied twice", "padding > 0"),
    "output_padding_as_padding": ("output_padding used as padding", ""),
    "weight_out_in": ("weight read as [out, in, k]", "in channels > 1 and out channels > 1"),
    "group_offset_missing": ("group offset of the input channel missing", "groups > 1"),
    "index_of_16_bits": ("elements not written", ""),
    "bias_ignored": ("bias ignored", "all 19 with bias fail; none without bias"),
}


# One defect that does not run, one that does not compile, one with wrong numbers, and one with a
# wrong memory access.
QUICK = {"unknown_keyword", "redeclared_in_initialiser", "no_divisibility_test", "one_past_end"}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Return the report of each file of tests/defects on conv_transpose1d, by the file's name."""
    folder = tmp_path_factory.mktemp("defects")
    options = ("--reference", ROOT / "reference" / "conv_transpose1d.py", "--json", "-")

    def check(name: str) -> Report:
        done = harness("check", FOLDER / f"{name}.py", *options, folder=folder)
        assert done.status == 1, done.err
        return reports(done.out)[name]

    return OnDemand(check)


def first_failure(report: Report) -> CaseReport:
    """Return the smallest failing case of a report."""
    return report.case(report.smallest_failure)


def test_every_defect_has_an_expectation() -> None:
    """Every file of tests/defects has an expected verdict in this module."""
    others = {
        "tail_unwritten",
        "one_past_end",
        "null_bias",
        "no_opt_in",
        "output_of_input_channels",
        "sum_not_set",
    }
    expected = {*STOPPED, *WRONG, *others}
    assert expected == {path.stem for path in FOLDER.glob("*.py")}


@pytest.mark.parametrize("name", thorough_but(QUICK, STOPPED))
def test_mistake_that_stops_is_an_error_with_its_reason(
    checked: dict[str, Report], name: str
) -> None:
    """A submission that does not build, import or run is an error with the reason in one line."""
    assert checked[name].verdict == "error"
    assert STOPPED[name] in checked[name].message
    assert "\n" not in checked[name].message


@pytest.mark.parametrize(
    "name",
    thorough_but(
        QUICK, ["redeclared_in_initialiser", "undefined_dispatch_type", "missing_cuda_header"]
    ),
)
def test_compiler_error_names_the_submissions_line(checked: dict[str, Report], name: str) -> None:
    """A compiler error names the submission's file and the number of the wrong line."""
    place = checked[name].message.partition(f"{name}.py(")[2].partition(")")[0]
    line = (FOLDER / f"{name}.py").read_text().splitlines()[int(place) - 1]
    wrong = {
        "redeclared_in_initialiser": "out.options()",
        "undefined_dispatch_type": "scalar_type",
        "missing_cuda_header": "getCurrentCUDAStream",
    }
    # The compiler reports an error in a macro's arguments at the line on which they end.
    assert wrong[name] in line or line.strip().endswith(");")


@pytest.mark.parametrize("name", thorough_but(QUICK, WRONG))
def test_wrong_numbers_get_the_name_of_the_mistake(checked: dict[str, Report], name: str) -> None:
    """A kernel that computes wrong numbers fails, and the report names its mistake.

    The report also says what the failing cases share, such as `stride > 1`.
    """
    diagnosis, pattern = WRONG[name]
    report = checked[name]
    assert report.verdict == "failed"
    assert first_failure(report).diagnosis.startswith(diagnosis)
    assert pattern in report.shared
    assert report.count("passed") > 0, "the mistake shows in some cases only"


@pytest.mark.parametrize("name", thorough_but(QUICK, sorted(WRONG.keys() - {"index_of_16_bits"})))
def test_picture_of_the_mistake_is_the_submissions(checked: dict[str, Report], name: str) -> None:
    """Each picture (map of an output) has the same errors for submission and diagnosed mistake.

    So the diagnosis explains all wrong elements in the pictures.
    """
    pictures = [case.picture for case in checked[name].cases if case.picture]
    assert 1 <= len(pictures) <= 5
    assert first_failure(checked[name]).picture in pictures
    assert {picture.mistake for picture in pictures} == {WRONG[name][0]}
    for picture in pictures:
        assert picture.overview.mistake == picture.overview.errors
    # A picture of a few numbers alone would agree by chance.
    assert max(math.prod(picture.shape) for picture in pictures) >= 100


def drawn(report: Report) -> list[tuple[str, str]]:
    """Return two texts for each picture of a report, with a letter for each output element.

    The first text marks the submission's errors, and the second those of the diagnosed mistake.
    """
    pictures = [case.picture.overview for case in report.cases if case.picture]
    return [(codes_of(one.errors), codes_of(one.mistake)) for one in pictures]


def codes_of(pages: Rows) -> str:
    """Return all rows of a picture as one text, with `|` between rows and between pages."""
    return "|".join(row for page in pages for row in page)


@pytest.mark.thorough
def test_mistakes_without_a_wrong_number_have_their_pictures(checked: dict[str, Report]) -> None:
    """The report's pictures mark writes outside the output, and output elements never written.

    The tested submissions write one element too many, have a wrong number of channels, or write no
    output at all.
    """
    for errors, mistake in drawn(checked["one_past_end"]):
        assert errors.rstrip(" ").endswith("o")
        assert set(errors) <= set(". |o")
        assert errors.count("o") == 1
        assert mistake == errors
    for errors, mistake in drawn(checked["output_of_input_channels"]):
        kinds = errors.replace("|", "")
        assert set(kinds) in ({".", "u"}, {".", "o"}), "too few channels, or too many"
        assert mistake == errors
    (null_bias,) = drawn(checked["null_bias"])
    assert [set(codes) - {"|"} for codes in null_bias] == [{"u"}, {"o"}]
    assert (
        len(drawn(checked["one_past_end"])) == len(drawn(checked["output_of_input_channels"])) == 2
    )


@pytest.mark.thorough
def test_null_pointer_has_the_name_of_what_is_missing(checked: dict[str, Report]) -> None:
    """The diagnosis of a load through a null pointer names the missing tensor, the bias."""
    diagnosis = first_failure(checked["null_bias"]).diagnosis
    assert diagnosis.startswith("bias read although it does not exist: ")


@pytest.mark.thorough
def test_variable_that_nothing_has_set_is_told_with_its_line(checked: dict[str, Report]) -> None:
    """The diagnosis of an uninitialised variable names the line that reads the variable.

    The variable may hold any value by chance, such as 0 or an earlier block's sum.
    """
    lines = (FOLDER / "sum_not_set.py").read_text().splitlines()
    read = next(number for number, line in enumerate(lines, 1) if "out[index] = sum" in line)
    report = checked["sum_not_set"]
    assert report.verdict == "failed"
    assert report.count("passed") == 0
    diagnosis = first_failure(report).diagnosis
    assert diagnosis.startswith("uninitialised variable: ")
    assert str(read) in diagnosis.rpartition(": ")[2].rstrip(".").split(", ")


@pytest.mark.thorough
def test_picture_of_what_was_not_written_shows_where(checked: dict[str, Report]) -> None:
    """The picture of a partly written output marks the unwritten part, which is its end."""
    for name in ("tail_unwritten", "index_of_16_bits"):
        picture = first_failure(checked[name]).picture
        assert picture is not None
        assert picture.mistake == ""
        shown = "".join(row for page in picture.overview.errors for row in page)
        assert shown.rstrip("u").strip(".") == ""
        assert shown.endswith("u")


@pytest.mark.thorough
def test_lines_of_the_kernel_have_counters(checked: dict[str, Report]) -> None:
    """The counters of all lines add up to the totals; lines that never ran have no counters."""
    report = checked["padding_twice"]
    assert report.counters is not None
    assert report.coverage is not None
    counted = sum(line.warp_instructions for line in report.lines)
    assert counted == report.counters.warp_instructions
    assert {line.line for line in report.lines} <= set(report.coverage.reached)
    assert sum(line.sectors for line in report.lines) == report.counters.sectors
    assert report.source == (FOLDER / "padding_twice.py").read_text()


@pytest.mark.thorough
def test_wrong_channels_get_no_word_about_the_length(checked: dict[str, Report]) -> None:
    """The diagnosis of a wrong number of channels omits the output's length, which is right."""
    report = checked["output_of_input_channels"]
    assert report.verdict == "failed"
    failure = first_failure(report)
    assert "shape" in failure.message
    assert failure.diagnosis == "The output has in_channels channels; it must have out_channels."


@pytest.mark.thorough
def test_unwritten_tail_is_seen_in_memory(checked: dict[str, Report]) -> None:
    """The message counts the output elements that no thread wrote, as recorded by the device.

    The elements' values play no part.
    """
    report = checked["tail_unwritten"]
    assert report.verdict == "failed"
    assert "output elements were never written" in first_failure(report).message
    for case in report.cases:
        elements_left_over = case.message.partition(" of ")[0]
        assert case.verdict == "passed" or 1 <= int(elements_left_over) <= 3


def test_write_past_the_end_is_seen_in_memory(checked: dict[str, Report]) -> None:
    """A store past the output's end fails every case, though the output's own numbers are right."""
    report = checked["one_past_end"]
    assert report.verdict == "failed"
    assert report.count("failed") == len(report.cases)
    for case in report.cases:
        assert case.comparison is None, "the numbers are right"
        (finding,) = case.findings
        assert finding.check == "memcheck"
        assert "store 4 bytes past the end" in finding.message
        assert finding.kernel == "start_from_bias_kernel"
        assert finding.offset == finding.allocation
        assert finding.access == "store"
        assert finding.reach == (finding.offset, finding.offset)
    line = (FOLDER / "one_past_end.py").read_text().splitlines()[(finding.line or 0) - 1]
    assert "] =" in line


@pytest.mark.thorough
def test_illegal_access_spoils_its_own_cases_alone(checked: dict[str, Report]) -> None:
    """A load through a null pointer fails only the cases that contain this load.

    The load breaks the CUDA context, but the next case has a working context.
    """
    report = checked["null_bias"]
    assert report.verdict == "failed"
    for case in report.cases:
        has_bias = bool(case.arguments.get("bias"))
        assert case.verdict == ("passed" if has_bias else "failed"), case
        assert ("memcheck: 4-byte load through a null pointer" in case.message) is not has_bias
        assert ("an illegal memory access" in case.detail) is not has_bias


@pytest.mark.thorough
def test_shared_memory_that_was_not_asked_for_is_an_error(checked: dict[str, Report]) -> None:
    """A launch with more than 48 KiB of shared memory is an error without cudaFuncSetAttribute.

    A launch with more than 227 KiB is declined, since CUDA may refuse it even with the attribute.
    """
    report = checked["no_opt_in"]
    assert report.verdict == "error"
    stopped = {case.id: case for case in report.cases if case.verdict != "passed"}
    assert {case.verdict for case in stopped.values()} == {"error", "declined"}
    for case in stopped.values():
        (channels, taps) = (case.arguments[name] for name in ("in_channels", "kernel_size"))
        assert isinstance(channels, int)
        assert isinstance(taps, int)
        assert 4 * channels * taps > (227 << 10 if case.verdict == "declined" else 48 << 10)
        assert "allow more with cudaFuncSetAttribute" in case.message
