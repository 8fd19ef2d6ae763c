"""Verdicts of `harness check` on submissions with one mistake each.

Most of them are the submission flat_index.py with another `forward` or constructor. The kernels
stay the same, so that these submissions share one build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.evaluate import Request, evaluate
from harness.judging.verdict import describe_wrong_runs, has_more_rows
from harness.problems.configuration import InputSpec
from harness.problems.discovery import ConstructorParameter, Kind, Submission, discover
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.grid import OWN, Case, case_again, cases_for
from harness.problems.problem import load
from harness.problems.values import calls_for
from harness.records.render import full
from harness.records.report import CaseReport, Report
from tests.support import REFERENCE, SUBMISSIONS, harness, reports, request_for

PROBLEM = REFERENCE / "conv_transpose1d.py"
ANY = Submission(
    "kernel",
    Path("kernel.py"),
    "0" * 64,
    (ConstructorParameter("rest", Kind.VAR_KEYWORD, required=False),),
)

ORIGINAL = (SUBMISSIONS / "flat_index.py").read_text()
FORWARD = """        return extension.conv_transpose1d_flat(
            x, self.weight, self.stride, self.padding, self.output_padding
        )
"""
# An instruction for several GPUs, which the simulator lacks.
MULTIMEM = (
    'asm("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];" : "=r"(unused) : "l"(out));'
)
RIGHT = "extension.conv_transpose1d_flat(x, w, self.stride, self.padding, self.output_padding)"


def check(text: str, folder: Path, cases: int, *, own: bool = True) -> Report:
    """Return the report of a submission with this text on the largest cases of the grid.

    Args:
        text: The submission's text.
        folder: The folder to write it to.
        cases: The number of cases.
        own: True to include the cases of the problem's own configuration.
    """
    path = folder / "flat_index.py"
    path.write_text(text)
    (submission,) = discover([path]).submissions
    grid = cases_for(load(PROBLEM), submission)
    others = [case for case in grid if case.label in ("grid", "corner")]
    chosen: list[Case] = sorted(others, key=lambda case: -Convolution.of(case).work)[:cases]
    if own:
        chosen += [case for case in grid if case.label in OWN]
    return evaluate(Request(path, PROBLEM, "simulator", cases=tuple(chosen), is_whole=False))


def with_forward(body: str) -> str:
    """Return the submission with another body of forward, where `run(x, w)` is the right kernel."""
    assert FORWARD in ORIGINAL
    return ORIGINAL.replace(FORWARD, _lines(body))


def _lines(body: str) -> str:
    """Return the body of a forward method that defines `run` and executes the given statements.

    Semicolons separate the statements.
    """
    run = f"        run = lambda x, w: {RIGHT}\n"
    return run + "".join(f"        {line}\n" for line in body.split(";"))


def with_forwards(bodies: list[str]) -> str:
    """Return a submission whose n-th case runs the n-th of the given bodies of forward."""
    constructed = "        super().__init__()\n"
    assert FORWARD in ORIGINAL
    assert constructed in ORIGINAL
    choose = "        return getattr(self, f'forward_{self.number}')(x)\n"
    forwards = [
        f"\n    def forward_{number}(self, x):\n{_lines(body)}"
        for number, body in enumerate(bodies)
    ]
    text = ORIGINAL.replace(FORWARD, choose + "".join(forwards))
    text = text.replace(constructed, f"{constructed}        self.number = next(numbers)\n")
    return f"import itertools\nnumbers = itertools.count()\n{text}"


# A part of the message, for each body of forward.
WRONG_KINDS = {
    "return run(x, self.weight).cpu()": "the output is on cpu, not on cuda",
    "return run(x, self.weight).double()": "dtype is torch.float64, not torch.float32",
    "return run(x, self.weight).unsqueeze(0)": "the output's shape is",
    "return [run(x, self.weight)]": "forward returned builtins.list, not a tensor",
    "return None": "forward returned builtins.NoneType, not a tensor",
    "out = run(x, self.weight);old = self.__dict__.setdefault('old', {});"
    "return old.setdefault(out.shape, torch.empty_like(out)).copy_(out)": (
        "the output shares memory with an earlier output"
    ),
    "out = run(x, self.weight);x.resize_(out.shape).copy_(out);return x": (
        "the output shares memory with its input"
    ),
}
# The beginning of the diagnosis, for each body of forward.
STALE = {
    "self.kept = getattr(self, 'kept', None);"
    "self.kept = self.weight.clone() if self.kept is None else self.kept;"
    "return run(x, self.kept)": "Wrong only after the weights changed",
    "self.kept = getattr(self, 'kept', {});key = x.data_ptr();"
    "self.kept.setdefault(key, run(x, self.weight));return self.kept[key].clone()": (
        "Right only at the first call"
    ),
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CaseReport]:
    """Return the report of one case for each wrong body of forward, and for the right one.

    A single worker process runs all of them.
    """
    bodies = [*WRONG_KINDS, *STALE, "return run(x, self.weight)"]
    folder = tmp_path_factory.mktemp("wrong")
    report = check(with_forwards(bodies), folder, len(bodies), own=False)
    assert report.verdict == "failed"
    return dict(zip(bodies, report.cases, strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize("body", WRONG_KINDS)
def test_output_of_the_wrong_kind_fails(wrong: dict[str, CaseReport], body: str) -> None:
    """The device, dtype, shape, type and storage of an output are checked before its numbers."""
    assert wrong[body].verdict == "failed"
    assert WRONG_KINDS[body] in wrong[body].message


@pytest.mark.thorough
@pytest.mark.parametrize("body", STALE)
def test_what_is_kept_from_earlier_calls_is_found(wrong: dict[str, CaseReport], body: str) -> None:
    """A submission that caches weights, or outputs by input address, fails with a diagnosis."""
    assert wrong[body].verdict == "failed"
    assert wrong[body].diagnosis.startswith(STALE[body])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_what_is_kept_is_told_in_any_order_of_calls(seed: int) -> None:
    """The diagnosis of a submission that caches outputs or weights is the same in any call order.

    A cache whose keys are addresses gives a right output whenever an input lies in new memory. Such
    right outputs must not change the diagnosis.
    """
    (submission,) = discover([SUBMISSIONS / "flat_index.py"]).submissions
    problem = load(PROBLEM)
    own = next(case for case in cases_for(problem, submission, seed=seed) if case.label in OWN)
    first, *later = calls_for(problem, own)
    by_address = [c.name for c in later if c.run != first.run and c.kind != "touched"]
    old_weights = [call.name for call in later if call.run.weights != first.run.weights]
    back = [call.name for call in later if call.kind == "again"]
    for wrong, diagnosis in (
        (by_address, "Right only at the first call"),
        (old_weights, "Wrong only after the weights changed"),
        (back, "Wrong only when the same or nearly the same values were given again"),
        ([], ""),
    ):
        said = describe_wrong_runs([first, *later], wrong)
        assert said.startswith(diagnosis)
        assert bool(said) == bool(wrong)


@pytest.mark.thorough
def test_right_case_among_wrong_ones_passes(wrong: dict[str, CaseReport]) -> None:
    """A right case passes although other cases in the same worker are wrong."""
    assert wrong["return run(x, self.weight)"].verdict == "passed"


def test_lower_precision_is_a_class_and_not_a_failure(tmp_path: Path) -> None:
    """Operands rounded to bfloat16 give the precision class bf16, whatever the output's dtype."""
    body = "return run(x.bfloat16().float(), self.weight.bfloat16().float())"
    report = check(with_forward(body), tmp_path, 6)
    assert (report.verdict, report.precision) == ("passed", "bf16")


@pytest.mark.thorough
def test_own_initialisation_is_a_note(tmp_path: Path) -> None:
    """Weights that differ from the reference's after initialisation with the same seed give a note.

    The submission passes nevertheless.
    """
    init = "nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))"
    assert init in ORIGINAL
    other = check(ORIGINAL.replace(init, "nn.init.normal_(self.weight)"), tmp_path, 2)
    alike = check(ORIGINAL, tmp_path, 2)
    assert other.verdict == "passed"
    assert "weights differ from the reference's" in other.notes[-1]
    assert not any("weights differ" in note for note in alike.notes)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["json", "torch"])
def test_file_may_be_called_as_a_module_is(tmp_path: Path, name: str) -> None:
    """A submission may be called json.py or torch.py, and does not hide the module of that name."""
    path = tmp_path / f"{name}.py"
    path.write_text(ORIGINAL)
    options = ("--reference", PROBLEM, "--case", "reduced")
    done = harness("check", path, *options, folder=tmp_path)
    assert done.status == 0, done.out


def test_declining_the_problems_own_configuration_fails(tmp_path: Path) -> None:
    """A submission that declines the reference's own configuration fails; it may decline others."""
    first = "        super().__init__()\n"
    refusal = f"{first}        if in_channels > 100:\n            raise ValueError('too wide')\n"
    report = check(ORIGINAL.replace(first, refusal, 1), tmp_path, 2)
    assert report.verdict == "failed"
    assert report.count("passed") == 2
    assert report.message == "declines the problem's own configuration: too wide"
    assert "failed: own configuration declined; all 2 others right: declines" in full(report)


@pytest.mark.thorough
def test_forward_may_not_refuse_what_its_constructor_accepted(tmp_path: Path) -> None:
    """A forward that refuses what the constructor accepted fails; only constructors may decline."""
    body = "assert x.shape[2] >= 40, 'too short';return run(x, self.weight)"
    report = check(with_forward(body), tmp_path, 60)
    assert report.verdict == "failed"
    assert report.own_configuration == "passed"
    assert report.count("declined") == 0
    assert (
        report.message == "forward refuses a configuration that the constructor accepted: too short"
    )
    short = [c for c in report.cases if c.input_shapes[0][2] < 40]
    assert {c.verdict for c in short} == {"failed"}
    assert report.count("failed") == len(short)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "size", ["const int64_t batch = x.size(0);", "const int64_t out_channels = weight.size(1);"]
)
def test_more_rows_than_a_grid_has_blocks_may_be_refused(tmp_path: Path, size: str) -> None:
    """A submission may refuse more rows or channels than a CUDA grid has blocks.

    Here the submission refuses either 65,537 rows or 65,537 channels. The case that it refuses is
    declined, and the other case passes.
    """
    name = size.split()[2]
    why = f'TORCH_CHECK({name} < 65536, "too many rows");'
    text = (SUBMISSIONS / "grid3d.py").read_text()
    assert size in text
    reports = of_many_rows(text.replace(size, f"{size} {why}"), tmp_path)
    assert sorted(each.verdict for each in reports) == ["declined", "passed"]
    (declined,) = (each for each in reports if each.verdict == "declined")
    assert "too many rows" in declined.message


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["b += gridDim.z", "co += gridDim.y"])
def test_loops_over_more_rows_than_a_grid_has_blocks_go_round(tmp_path: Path, step: str) -> None:
    """A kernel whose loop over rows or channels stops after one iteration fails.

    Only cases with more rows or channels than a CUDA grid has blocks need a second iteration.
    """
    text = (SUBMISSIONS / "grid3d.py").read_text()
    assert step in text
    once = text.replace(step, step.replace("gridDim", "65535 + gridDim"))
    reports = of_many_rows(once, tmp_path)
    assert sorted(each.verdict for each in reports) == ["failed", "passed"]
    (failed,) = (each for each in reports if each.verdict == "failed")
    assert "never written" in failed.message


def of_many_rows(text: str, folder: Path) -> Sequence[CaseReport]:
    """Return the reports of the two cases with 65,537 rows or channels, too many for a grid.

    The submission has the given text.
    """
    path = folder / "grid3d.py"
    path.write_text(text)
    (submission,) = discover([path]).submissions
    many = [each for each in cases_for(load(PROBLEM), submission) if "65537" in each.id]
    assert len(many) == 2
    return evaluate(Request(path, PROBLEM, "simulator", cases=tuple(many), is_whole=False)).cases


@pytest.mark.thorough
def test_defaults_must_be_the_references(tmp_path: Path) -> None:
    """A constructor whose default is not the reference's fails the cases that use the default."""
    report = check(ORIGINAL.replace("padding: int = 0,", "padding: int = 1,", 1), tmp_path, 60)
    assert report.verdict == "failed"
    failed = [case for case in report.cases if case.verdict == "failed"]
    assert failed
    assert all(", padding=" not in case.constructor_call for case in failed)
    (diagnosis,) = {case.diagnosis for case in failed}
    assert "every failing case leaves out padding," in diagnosis


@pytest.mark.thorough
def test_default_is_named_beside_arguments_that_are_always_left_out(tmp_path: Path) -> None:
    """The diagnosis names the argument `padding`, whose default is wrong.

    All failing cases leave out padding. They also leave out other arguments, but only because the
    submission declines every case that has one of these.
    """
    text = (SUBMISSIONS / "grid3d.py").read_text()
    assert "padding: int = 0," in text
    report = check(text.replace("padding: int = 0,", "padding: int = 1,", 1), tmp_path, 60)
    failed = [case for case in report.cases if case.verdict == "failed"]
    assert {"groups=", "bias="}.isdisjoint(" ".join(case.constructor_call for case in failed))
    assert report.count("declined") > 0
    (diagnosis,) = {case.diagnosis for case in failed}
    assert "every failing case leaves out padding," in diagnosis


@pytest.mark.thorough
def test_order_of_parameters_that_is_not_the_references_is_noted(tmp_path: Path) -> None:
    """Constructor parameters in another order than the reference's give a note.

    KernelBench passes arguments by position, and would build another model.
    """
    swapped = ORIGINAL.replace(
        "        in_channels: int,\n        out_channels: int,",
        "        out_channels: int,\n        in_channels: int,",
    )
    report = check(swapped, tmp_path, 1)
    assert report.verdict == "passed"
    assert any("as KernelBench calls it, is another model" in note for note in report.notes)
    assert not any("KernelBench" in note for note in check(ORIGINAL, tmp_path, 1).notes)


def test_missing_parameter_fails(tmp_path: Path) -> None:
    """A model without a parameter for the reference's weight fails, as it cannot be compared."""
    body = "return run(x, self.weight)"
    text = with_forward(body).replace("nn.Parameter(torch.empty(in", "(torch.empty(in")
    report = check(text, tmp_path, 2)
    assert report.verdict == "failed"
    assert "ModelNew has no parameter for the reference's conv1d_transpose.weight" in report.message


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        (MULTIMEM, "`multimem.ld_reduce"),
        pytest.param("", "cudaGraphCreate()", marks=pytest.mark.thorough),
    ],
)
def test_what_the_simulator_lacks_is_named(tmp_path: Path, statement: str, missing: str) -> None:
    """An instruction or runtime call that the simulator lacks gives `unsupported`, with its name.

    It never gives a wrong number.
    """
    call = "" if statement else "cudaGraph_t graph; cudaGraphCreate(&graph, 0);"
    path = tmp_path / "small.py"
    path.write_text(f'''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
__global__ void fill(float *out) {{
    unsigned unused = 0;
    {statement}
    out[threadIdx.x] = unused;
}}
torch::Tensor run(torch::Tensor x) {{
    {call}
    fill<<<1, 4>>>(x.data_ptr<float>());
    return x;
}}
"""
extension = load_inline("small", "torch::Tensor run(torch::Tensor x);", CUDA_SOURCE,
                        functions=["run"])

class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size))

    def forward(self, x):
        return extension.run(x)
''')
    options = ("--reference", PROBLEM, "--json", "-")
    done = harness("check", path, *options, folder=tmp_path)
    report = reports(done.out)["small"]
    assert done.status == 1
    assert report.verdict == "unsupported"
    assert missing in report.message
    if statement:
        line = path.read_text().splitlines().index(f"    {statement}") + 1
        assert f"small.py:{line}" in report.message


# The weight and its taps in the order of a convolution that is not transposed. Many submissions
# keep them so.
OUT_IN = with_forward("return run(x, self.weight.transpose(0, 1).flip(2).contiguous())").replace(
    "torch.empty(in_channels, out_channels, kernel_size)",
    "torch.empty(out_channels, in_channels, kernel_size)",
)


@pytest.mark.thorough
def test_failure_that_explains_most_is_shown_first(tmp_path: Path) -> None:
    """The failure at the reference's own sizes is shown first; other failures are counted later."""
    path = tmp_path / "flat_index.py"
    path.write_text(OUT_IN)
    problem = REFERENCE / "conv_transpose1d_dilated.py"
    report = evaluate(request_for(path, problem))
    assert report.verdict == "failed"
    assert report.own_configuration == "failed"
    assert "no parameter for the reference's conv1d_transpose.weight" in report.message
    assert report.message.endswith("the sizes of weight are in another order")
    assert report.case(report.smallest_failure).message == report.message
    (other,) = report.other_failures
    assert "differ from the reference" in other.message
    assert 0 < other.count < report.count("failed") / 2
    line, *rest = full(report).splitlines()
    assert line.startswith(
        "flat_index on conv_transpose1d_dilated: failed: own configuration failed"
    )
    assert any(other.message in each for each in rest)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"input_shapes": ((70_000, 4, 8),)}, True),
        ({"input_shapes": ((300, 300, 8),)}, True),
        ({"input_shapes": ((1, 1, 65_535),)}, False),
        ({"arguments": {"out_channels": 70_000}}, True),
        ({"arguments": {"bias": False}}, False),
    ],
)
def test_case_may_have_more_rows_than_the_author(changes: dict[str, Any], expected: bool) -> None:
    """`has_more_rows` is True for a size above 65,535, unless the reference has such a size itself.

    The size may be a product of neighbouring sizes, or an argument.
    """
    own = replace(load(PROBLEM), inputs=(InputSpec((16, 32, 128), "float32"),))
    case = case_again(own, ANY, "case", "grid", own.arguments, own.input_shapes, {}, seed=0)
    assert has_more_rows(replace(case, **changes), own) == expected
    vast = replace(own, inputs=(InputSpec((70_000, 300, 300), "float32"),))
    vast = replace(vast, arguments={**own.arguments, "out_channels": 70_000})
    assert not has_more_rows(replace(case, **changes), vast)
