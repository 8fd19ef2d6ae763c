"""References that are not transposed convolutions, each in a user's file."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from harness.evaluate import evaluate
from harness.judging.verdict import TOO_MANY_ROWS
from harness.records.render import full, headline
from harness.records.report import Report
from tests.support import harness, reports, request_for

REFERENCE = """
import torch
from torch import nn

rows = 4096
columns = 1000


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, y):
        return self.scale * x + torch.relu(y)


def get_inputs():
    return [torch.rand(rows, columns), torch.rand(rows, columns)]


def get_init_inputs():
    return [2.5]
"""

SUBMISSION = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
__global__ void combine(const float *x, const float *y, float *out, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = scale * x[i] + fmaxf(y[i], 0.0f);
}

torch::Tensor run(torch::Tensor x, torch::Tensor y, double scale) {
    auto out = torch::empty_like(x);
    int n = x.numel();
    combine<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                      out.data_ptr<float>(), scale, n);
    return out;
}
"""

extension = load_inline(
    name="combine",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor y, double scale);",
    cuda_sources=CUDA_SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, y):
        return extension.run(x, y, self.scale)
'''


def check(submission: str, folder: Path, *options: str) -> Report:
    """Return the report of a submission, given as text, on the reference `REFERENCE`."""
    return check_on(REFERENCE, submission, folder, *options)


def check_on(reference: str, submission: str, folder: Path, *options: str) -> Report:
    """Return the report of a submission on a reference, both given as texts.

    The options are those of `harness check`.
    """
    (folder / "reference.py").write_text(reference)
    (folder / "combine.py").write_text(submission)
    command = ("check", "--reference", "reference.py", "combine.py", "--json", "-", *options)
    done = harness(*command, folder=folder)
    assert done.out, done.err
    return reports(done.out)["combine"]


def test_any_reference_is_checked_in_many_sizes(tmp_path: Path) -> None:
    """Each integer constant of a reference is varied from 1 to 65,537, more than 16 bits can hold.

    The reference's own sizes are cut down.
    """
    report = check(SUBMISSION, tmp_path)
    assert (report.verdict, report.message) == ("passed", "")
    assert {case.verdict for case in report.cases} == {"passed"}
    assert report.cases[0].label == "reduced"
    for name in ("rows", "columns"):
        assert {case.constants.get(name) for case in report.cases} >= {1, 33, 257, 1025, 65537}
    cut = report.cases[0].input_shapes[0]
    most = max(math.prod(case.input_shapes[0]) for case in report.cases)
    assert report.notes == (
        f"the own configuration ran with inputs of {cut} in place of (4096, 1000), {cut} in place "
        f"of (4096, 1000); the largest input of any case had {most:,} numbers",
    )


@pytest.mark.thorough
def test_compilers_refusal_that_is_caught_is_told(tmp_path: Path) -> None:
    """A submission that catches a compiler error leaves its work to torch and fails.

    A note quotes the compiler, since the author may not know of the error.
    """
    unknown = SUBMISSION.replace("int n = x.numel();", "int n = number_of(x);")
    caught = unknown.replace("extension = load_inline", "try:\n  extension = load_inline").replace(
        '    functions=["run"],\n)', '    functions=["run"],\n  )\nexcept RuntimeError: pass'
    )
    fallback = caught.replace("extension.run(x, y, self.scale)", "self.scale * x + torch.relu(y)")
    report = check(fallback, tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    assert report.message.startswith("own work: ")
    told = "combine did not compile, and the submission continued without it: "
    (note,) = [note for note in report.notes if note.startswith(told)]
    assert '"number_of" is undefined' in note
    assert not any(told in note for note in check(unknown, tmp_path, "--grid", "own").notes)


def test_what_has_no_bound_only_agrees(tmp_path: Path) -> None:
    """The verdict is `agrees`, not `passed`, if an operator has no known error bound.

    The output names the operator.
    """
    reference = REFERENCE.replace("torch.relu(y)", "torch.special.bessel_j0(x + y)")
    submission = SUBMISSION.replace("fmaxf(y[i], 0.0f)", "j0f(x[i] + y[i])")
    (tmp_path / "reference.py").write_text(reference)
    (tmp_path / "combine.py").write_text(submission)
    command = ("check", "--reference", "reference.py", "combine.py", "--grid", "own")
    done = harness(*command, folder=tmp_path)
    assert done.status == 0
    assert "agrees: own configuration right; the error bound is an estimate: " in done.out, done.out
    assert "no exact bound is known for bessel_j0\n" in done.out


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("value", "verdict", "precision", "words"),
    [
        (
            "sinf(10000.0f / (1.0f + expf(-fabsf(x[i] + y[i]))))",
            "passed",
            "fp32",
            "fp32, worst error ",
        ),
        ("0.0f", "agrees", "fp16", "; rounding to fp16 can change the output by as much as the "),
    ],
)
def test_class_that_allows_anything_is_none(
    tmp_path: Path, value: str, verdict: str, precision: str, words: str
) -> None:
    """The verdict is `agrees`, not `passed`, if a precision class's bound allows any value.

    Here the reference is the sine of a large number. Rounding that number to float16 changes the
    sine so much that the bound of the class fp16 allows an output of zeros.
    """
    model = "self.scale * x + torch.relu(y)"
    reference = REFERENCE.replace(model, "torch.sin(10000.0 * torch.sigmoid((x + y).abs()))")
    submission = SUBMISSION.replace("scale * x[i] + fmaxf(y[i], 0.0f)", value)
    report = check_on(reference, submission, tmp_path, "--grid", "own")
    assert (report.verdict, report.precision) == (verdict, precision)
    assert words in headline(report)


def test_file_that_does_not_compile_has_no_notes_on_inputs(tmp_path: Path) -> None:
    """No note says with which inputs the own configuration ran if no case ran."""
    report = check_on(REFERENCE, SUBMISSION.replace("fmaxf", "maximum_of"), tmp_path)
    assert report.verdict == "error"
    assert "does not compile" in report.message
    assert report.notes == ()


TURNED = """
        a, b = x, y
        for _ in range(60):
            a, b = 0.6 * a - 0.8 * b, 0.8 * a + 0.6 * b
        return a
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("turns", "rounded", "verdict", "words"),
    [
        (60, "{}", "agrees", "; rounding to fp32 can change the output by as much as the whole"),
        (60, "__bfloat162float(__float2bfloat16({}))", "agrees", "; rounding to bf16 can change "),
        (59, "{}", "failed", "by more than 4 times what rounding makes in trials"),
    ],
)
def test_where_a_bound_says_nothing_trials_do(
    tmp_path: Path, turns: int, rounded: str, verdict: str, words: str
) -> None:
    """If the error bound is as large as the output itself, trials of rounding decide instead.

    The bound grows with every step of a computation. An output fails if its error exceeds 4 times
    the errors that rounding makes in trials.
    """
    reference = REFERENCE.replace("        return self.scale * x + torch.relu(y)\n", TURNED[1:])
    loop = f"""float a = x[i], b = y[i];
        for (int turn = 0; turn < {turns}; ++turn) {{
            float turned = {rounded.format("0.6f * a - 0.8f * b")};
            b = {rounded.format("0.8f * a + 0.6f * b")};
            a = turned;
        }}
        out[i] = a;"""
    submission = SUBMISSION.replace("if (i < n) out[i] = scale * x[i] + fmaxf(y[i], 0.0f);", "@")
    submission = submission.replace("@", f"if (i < n) {{ {loop} }}")
    submission = submission.replace('r"""', 'r"""\n#include <cuda_bf16.h>\n')
    report = check_on(reference, submission, tmp_path, "--grid", "own")
    assert report.verdict == verdict, headline(report)
    assert words in headline(report)


@pytest.mark.thorough
def test_class_of_mostly_zeros_is_one(tmp_path: Path) -> None:
    """A right kernel whose outputs are mostly 0, as after a relu, passes in the class fp32.

    The zeros do not count when the harness tests if the class's error bound is too loose.
    """
    reference = REFERENCE.replace("self.scale * x + torch.relu(y)", "torch.relu(x - 0.9)")
    submission = SUBMISSION.replace("scale * x[i] + fmaxf(y[i], 0.0f)", "fmaxf(x[i] - 0.9f, 0.0f)")
    report = check_on(reference, submission, tmp_path, "--grid", "own")
    assert (report.verdict, report.precision) == ("passed", "fp32")


@pytest.mark.thorough
@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize(("many", "of_a_block"), [("rows", "x.size(1)"), ("columns", "x.size(0)")])
def test_more_blocks_than_a_grid_has_are_declined(
    tmp_path: Path, asks: bool, many: str, of_a_block: str
) -> None:
    """A case that needs more blocks along y than a CUDA grid can have is declined.

    A submission that does not check the launch for errors gets a note. Without that check, the case
    is an error if the reference's own sizes need that many blocks.
    """
    path, reference = tmp_path / "combine.py", tmp_path / "reference.py"
    reference.write_text(REFERENCE)
    text = SUBMISSION.replace(
        "<<<(n + 255) / 256, 256>>>", "<<<dim3((c + 255) / 256, n / c), 256>>>"
    )
    text = text.replace("int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n)", "@")
    text = text.replace(
        "@",
        "int c = n / gridDim.y, j = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    int i = blockIdx.y * c + j;\n    if (j < c)",
    )
    text = text.replace("int n = x.numel();", f"int n = x.numel(), c = {of_a_block};")
    error = "cudaError_t error = cudaGetLastError();"
    check = "TORCH_CHECK(!error, cudaGetErrorString(error));"
    path.write_text(text.replace("return out;", f"{error}\n{check} return out;") if asks else text)
    grid = request_for(path, reference)
    large = [case for case in grid.cases if case.constants.get(many, 0) > 65_535]
    report = evaluate(replace(grid, cases=(grid.cases[0], *large), is_whole=False))
    own, *others = report.cases
    assert (report.verdict, own.verdict) == ("passed", "passed")
    assert {case.verdict for case in others} == {"declined"}
    assert (TOO_MANY_ROWS in report.notes) != asks
    reference.write_text(REFERENCE.replace("4096", "70000").replace("1000", "70000"))
    grid = request_for(path, reference)
    large = [case for case in grid.cases if case.constants.get(many, 0) > 65_535]
    report = evaluate(replace(grid, cases=tuple(large), is_whole=False))
    assert {case.verdict for case in report.cases} == {"declined" if asks else "error"}


# The first launch fails for many rows, so the second one reads indices that nothing has written.
PICKED = SUBMISSION.replace(
    "__global__",
    """__global__ void places(int *place, int c) {
    place[blockIdx.y * c + threadIdx.x] = threadIdx.x;
}

__global__""",
)


@pytest.mark.thorough
def test_consequences_of_a_launch_that_fails_for_many_rows_are_left_out(tmp_path: Path) -> None:
    """A case with more rows than a CUDA grid has blocks is declined, whatever later kernels do.

    Here the first launch fails, and the second kernel uses unwritten numbers as addresses.
    """
    path, reference = tmp_path / "combine.py", tmp_path / "reference.py"
    reference.write_text(REFERENCE.replace("1000", "40"))
    text = PICKED.replace("float scale, int n)", "float scale, int n, const int *place, int c)")
    text = text.replace("if (i < n) out[i]", "if (i < n) i = i / c * c + place[i], out[i]")
    text = text.replace("scale, n);", "scale, n, place.data_ptr<int>(), c);")
    text = text.replace(
        "int n = x.numel();",
        """int n = x.numel(), c = x.size(1);
    auto place = torch::empty({n}, x.options().dtype(torch::kInt));
    places<<<dim3(1, n / c), c>>>(place.data_ptr<int>(), c);""",
    )
    path.write_text(text)
    grid = request_for(path, reference)
    large = [case for case in grid.cases if case.constants.get("rows", 0) > 65_535]
    report = evaluate(replace(grid, cases=(grid.cases[0], *large), is_whole=False))
    assert [case.verdict for case in report.cases] == ["passed", *["declined"] * len(large)]
    assert TOO_MANY_ROWS in report.notes
    assert not any(case.findings for case in report.cases)


@pytest.mark.thorough
def test_wrong_numbers_are_graver_than_a_refused_launch(tmp_path: Path) -> None:
    """A launch that fails for one size does not hide that all other cases are wrong."""
    wrong = SUBMISSION.replace("scale * x[i]", "x[i]")
    corner = wrong.replace("255) / 256, 256>>>", "255) / 256, x.size(0) == 33 ? 2048 : 256>>>")
    report = check(corner, tmp_path)
    assert {case.verdict for case in report.cases} == {"failed", "error"}
    assert report.verdict == "failed"
    assert "differ from the reference" in report.message
    (other,) = [each for each in report.other_failures if "CUDA error" in each.message]
    assert other.count < report.count("failed") / 2


@pytest.mark.thorough
def test_wrong_numbers_are_graver_than_a_later_exception(tmp_path: Path) -> None:
    """A case whose first outputs are wrong has failed, even if a later call raises."""
    wrong = SUBMISSION.replace("scale * x[i]", "x[i]")
    forward = "        return extension.run"
    raises = "        self.calls = getattr(self, 'calls', 0) + 1\n        assert self.calls < 3\n"
    report = check(wrong.replace(forward, raises + forward), tmp_path, "--grid", "own")
    (case,) = report.cases
    assert report.verdict == "failed"
    assert case.diagnosis.startswith("mul left out: ")
    assert "differ from the reference" in report.message
    assert "AssertionError" in case.detail


SUM_OF_A_WARP = """
__global__ void combine(const float *x, const float *y, float *out, float scale, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    float sum = 0.0f;
    for (int i = t; i < n; i += 32) sum += x[i] + y[i];
    for (int o = 16; o; o /= 2) {
        float other = __shfl_down_sync(~0u, sum, o);
        if (ALWAYS || t + o < n) sum += other;
    }
    if (t == 0) *out = scale * sum;
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("always", "verdict"), [("1", "failed"), ("0", "passed")])
def test_value_of_a_thread_that_has_returned(tmp_path: Path, always: str, verdict: str) -> None:
    """A shuffle that reads from a thread which has returned is named as the cause of wrong numbers.

    If the kernel ignores the value, the finding is only a warning.
    """
    model = "self.scale * x + torch.relu(y)"
    reference = REFERENCE.replace(model, "(self.scale * (x + y)).sum()")
    reference = reference.replace("rows = 4096", "rows = 5").replace("= 1000", "= 4")
    kernel = SUBMISSION[SUBMISSION.index("__global__") : SUBMISSION.index("torch::Tensor run")]
    submission = SUBMISSION.replace(kernel, SUM_OF_A_WARP.replace("ALWAYS", always))
    submission = submission.replace("<<<(n + 255) / 256, 256>>>", "<<<1, 32>>>")
    submission = submission.replace("torch::empty_like(x)", "torch::empty({}, x.options())")
    report = check_on(reference, submission, tmp_path)
    assert report.verdict == verdict, headline(report)
    assert ("1 warning" in headline(report)) == (verdict == "passed")
    severity = " (warning)" if verdict == "passed" else ""
    found = f"synccheck{severity}: shfl.sync.down.b32: takes an undefined value from lane "
    lines = [line.strip() for line in full(report).splitlines()]
    assert any(line.startswith(found) for line in lines), lines
    assert report.message.startswith(found) == (verdict == "failed")


@pytest.mark.thorough
def test_what_is_0_anyway_need_not_be_written(tmp_path: Path) -> None:
    """A kernel need not write outputs that have the same value whatever the input is."""
    reference = REFERENCE.replace("self.scale * x + torch.relu(y)", "torch.relu(x - 1.0)")
    submission = SUBMISSION.replace("torch::empty_like", "torch::zeros_like")
    submission = submission.replace(
        "if (i < n) out[i] = scale * x[i] + fmaxf(y[i], 0.0f);",
        "if (i < n && x[i] > 1.0f) out[i] = x[i] - 1.0f;",
    )
    report = check_on(reference, submission, tmp_path, "--grid", "own")
    assert report.verdict == "passed", headline(report)


@pytest.mark.thorough
def test_values_that_are_left_out_are_told_in_one_line(tmp_path: Path) -> None:
    """Input values for which the reference is not finite are left out, and one note lists them."""
    reference = REFERENCE.replace("torch.relu(y)", "torch.log(y)")
    submission = SUBMISSION.replace("fmaxf(y[i], 0.0f)", "logf(y[i])")
    report = check_on(reference, submission, tmp_path, "--grid", "own")
    assert report.verdict == "passed", report.message
    left_out = [note for note in report.notes if note.startswith("values left out")]
    (line,) = left_out
    begin = "values left out in 1 case, since the reference raises or is not finite there: "
    assert {"normal", "integers"} <= set(line.removeprefix(begin).split(", "))


@pytest.mark.thorough
def test_own_configuration_is_told_apart_from_other_sizes(tmp_path: Path) -> None:
    """A kernel that omits the last partial block is right at the reference's own sizes only.

    At other sizes it fails, and `--case` replays such a case.
    """
    whole = SUBMISSION.replace("(n + 255) / 256", "n / 256 > 0 ? n / 256 : 1")
    assert whole != SUBMISSION
    report = check(whole, tmp_path)
    assert (report.verdict, report.own_configuration) == ("failed", "passed")
    failing = report.case(report.smallest_failure)
    case = ("--seed", str(report.seed), "--case", failing.id)
    again = harness("check", "--reference", "reference.py", "combine.py", *case, folder=tmp_path)
    assert f"failed: 1 of 1 cases failed: {failing.message}\n" in again.out, again.out + again.err
    assert check(whole, tmp_path, "--grid", "own").verdict == "passed"


@pytest.mark.thorough
def test_values_beyond_the_authors_own_count(tmp_path: Path) -> None:
    """A submission must be right for other input values than those of `get_inputs`.

    For example, `torch.rand` gives no negative number, so it does not show that a relu is missing.
    """
    identity = SUBMISSION.replace("fmaxf(y[i], 0.0f)", "y[i]")
    assert identity != SUBMISSION
    report = check(identity, tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    assert "own" not in report.cases[0].wrong_runs
    assert "normal" in report.cases[0].wrong_runs


MATMUL = """
import torch
from torch import nn

rows, inner, columns = 24, 800, 24


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.rand(rows, inner), torch.rand(inner, columns)]


def get_init_inputs():
    return []
"""

FEWER_BITS = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
__device__ float cut(float value, int k) {
    return k < 64 ? value : __uint_as_float(__float_as_uint(value) & 0xffffff00);
}

__global__ void product(const float *a, const float *b, float *out, int m, int k, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n) return;
    float sum = 0.0f;
    for (int j = 0; j < k; ++j) sum += cut(a[i / n * k + j], k) * b[j * n + i % n];
    out[i] = sum;
}

torch::Tensor run(torch::Tensor a, torch::Tensor b) {
    int m = a.size(0), k = a.size(1), n = b.size(1);
    auto out = torch::empty({m, n}, a.options());
    product<<<(m * n + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                          out.data_ptr<float>(), m, k, n);
    return out;
}
"""

extension = load_inline(
    name="combine",
    cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);",
    cuda_sources=CUDA_SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.run(a, b)
'''


@pytest.mark.thorough
def test_operand_of_fewer_bits_is_told_by_its_errors(tmp_path: Path) -> None:
    """A kernel that rounds an operand to 16 bits is not in the class fp32, and a note says so.

    This holds although its errors are within the fp32 bound, which is wide for long sums.
    """
    report = check_on(MATMUL, FEWER_BITS, tmp_path, "--grid", "own", "--seed", "1")
    assert (report.verdict, report.precision) == ("passed", "tf32")
    assert any(note.startswith("its a is rounded to 16 bits (towards") for note in report.notes)


@pytest.mark.thorough
def test_reference_of_several_operators_may_leave_some_to_torch(tmp_path: Path) -> None:
    """A submission may leave some of a reference's operators to torch, but not all of them.

    The report has the share of work that its own kernels did. `--require-own-work` demands a larger
    share.
    """
    call = "return extension.run(x, y, self.scale)"
    assert call in SUBMISSION
    some = SUBMISSION.replace(call, "return extension.run(x, torch.relu(y), self.scale)")
    report = check(some, tmp_path, "--grid", "own")
    assert report.verdict == "passed"
    assert report.own_work is not None
    assert 0.5 < report.own_work < 0.8
    insists = ("--require-own-work", "100%", "--grid", "own")
    done = harness("check", "--reference", "reference.py", "combine.py", *insists, folder=tmp_path)
    assert done.status == 1
    assert (
        f"requirement not met: its own kernels did {report.own_work:.1%} of the work, " in done.out
    )
    every = SUBMISSION.replace(
        call,
        "return extension.run(self.scale * x + torch.relu(y), -torch.ones_like(y), 1.0)",
    )
    report = check(every, tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    assert "which is all that the reference does" in report.message


LOOKING = REFERENCE.replace(
    "return self.scale * x + torch.relu(y)",
    "return torch.softmax(x + y, 1) if x[0, 0] < 1e30 else x",
)


@pytest.mark.thorough
def test_work_of_a_reference_that_looks_at_numbers_is_known(tmp_path: Path) -> None:
    """A submission that leaves all work to torch fails, even if the reference branches on values.

    To find the operators of such a reference, the harness runs it on real values.
    """
    left = SUBMISSION.replace(
        "return extension.run(x, y, self.scale)",
        "return extension.run(torch.softmax(x + y, 1), torch.zeros_like(y), 1.0)",
    )
    assert left != SUBMISSION
    report = check_on(LOOKING, left, tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    assert "which is all that the reference does" in report.message


HOST = SUBMISSION.replace(
    "return extension.run(x, y, self.scale)",
    """z = (self.scale * x.cpu() + y.cpu().relu()).sum()
        nothing = torch.zeros(1, 1, device=x.device)
        return extension.run(nothing + z.item(), nothing, 1.0)""",
)


@pytest.mark.thorough
def test_work_on_the_host_is_nobodys(tmp_path: Path) -> None:
    """A submission that computes on the CPU fails, even if only one number is copied back.

    The finding says how many bytes of input were copied to the CPU.
    """
    reference = REFERENCE.replace(
        "return self.scale * x + torch.relu(y)",
        "return (self.scale * x + torch.relu(y)).sum().view(1, 1)",
    )
    report = check_on(reference, HOST, tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    assert "bytes were copied to the host during the call" in report.message


TRIANGULAR = """
import torch
from torch import nn

size = 4096


class Model(nn.Module):
    def forward(self, a, factor, b):
        return torch.triu(a @ b) * factor


def get_inputs():
    return [torch.triu(torch.rand(size, size)), 1.5, torch.triu(torch.rand(size, size))]


def get_init_inputs():
    return []
"""

PRODUCT = """
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void multiply(float *c, const float *a, const float *b, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * n) return;
  int row = i / n, column = i % n;
  float sum = 0;
  for (int k = row; k <= column; ++k) sum += a[row * n + k] * b[k * n + column];
  c[i] = sum * factor;
}
torch::Tensor run(torch::Tensor a, torch::Tensor b, double factor) {
  auto c = torch::empty_like(a);
  const int n = a.size(0);
  multiply<<<(n * n + 255) / 256, 256>>>(
      c.data_ptr<float>(), a.data_ptr<float>(), b.data_ptr<float>(), factor, n);
  return c;
}
'''
extension = load_inline(
    "product",
    "torch::Tensor run(torch::Tensor a, torch::Tensor b, double factor);",
    SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, a, factor, b):
        return extension.run(a, b, factor)
"""


@pytest.mark.thorough
def test_what_the_author_made_of_inputs_holds(tmp_path: Path) -> None:
    """Test inputs keep structure that `get_inputs` gives them, such as a triangle of zeros.

    So a kernel may skip these zeros. A plain number may be an input as well.
    """
    report = check_on(TRIANGULAR, PRODUCT, tmp_path)
    assert (report.verdict, report.message) == ("passed", "")
    skips_more = PRODUCT.replace("k <= column", "k < column")
    assert check_on(TRIANGULAR, skips_more, tmp_path, "--grid", "own").verdict == "failed"


NORMALISED = """
import torch
from torch import nn

features = 64


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(12, features)]


def get_init_inputs():
    return [features]
"""

NORM = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void normalise(float *y, const float *x, const float *weight, const float *bias,
                          float *running_mean, int rows, int features) {
  int f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f >= features) return;
  float mean = 0, square = 0;
  for (int r = 0; r < rows; ++r) mean += x[r * features + f];
  mean /= rows;
  for (int r = 0; r < rows; ++r) {
    float d = x[r * features + f] - mean;
    square += d * d;
  }
  float scale = rsqrtf(square / rows + 1e-5f);
  running_mean[f] = 0.9f * running_mean[f] + 0.1f * mean;
  for (int r = 0; r < rows; ++r)
    y[r * features + f] = (x[r * features + f] - mean) * scale * weight[f] + bias[f];
}
torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                  torch::Tensor running_mean) {
  auto y = torch::empty_like(x);
  const int features = x.size(1);
  normalise<<<(features + 63) / 64, 64>>>(
      y.data_ptr<float>(), x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
      running_mean.data_ptr<float>(), x.size(0), features);
  return y;
}
'''
extension = load_inline(
    "norm",
    "torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, "
    "torch::Tensor running_mean);",
    SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))

    def forward(self, x):
        return extension.run(x, self.weight, self.bias, self.running_mean)
"""


@pytest.mark.thorough
def test_statistics_that_a_reference_keeps_are_its_own_affair(tmp_path: Path) -> None:
    """A submission need not update all running statistics that the reference's batch norm updates.

    Both models are in training mode.
    """
    report = check_on(NORMALISED, NORM, tmp_path, "--grid", "own")
    assert (report.verdict, report.message) == ("passed", "")
    unbiased = NORM.replace("square / rows", "square / (rows - 1)")
    assert check_on(NORMALISED, unbiased, tmp_path, "--grid", "own").verdict == "failed"


LAYER = """
import torch
from torch import nn

width = 1024
channels = 512


class Model(nn.Module):
    def __init__(self, width, channels):
        super().__init__()
        self.linear = nn.Linear(width, channels)
        self.bias = nn.Parameter(torch.randn(1, channels))

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.bias


def get_inputs():
    return [torch.rand(128, width)]


def get_init_inputs():
    return [width, channels]
"""

# This submission has names of its own, one of which is another weight's of the same size. Its
# matrix is transposed, and its weight of shape (1, channels) is a vector.
OWN_LAYER = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void layer(float *out, const float *x, const float *w, const float *b,
                      const float *added, int rows, int width, int channels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * channels) return;
  int row = i / channels, channel = i % channels;
  float sum = b[channel];
  for (int k = 0; k < width; k++) sum += x[row * width + k] * w[k * channels + channel];
  out[i] = fmaxf(sum, 0.0f) + added[channel];
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor added) {
  int rows = x.size(0), width = x.size(1), channels = w.size(1);
  auto out = torch::empty({rows, channels}, x.options());
  layer<<<(rows * channels + 255) / 256, 256>>>(
      out.data_ptr<float>(), x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
      added.data_ptr<float>(), rows, width, channels);
  return out;
}
'''
extension = load_inline(
    "layer",
    "torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor added);",
    SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, width, channels):
        super().__init__()
        linear = nn.Linear(width, channels)
        self.turned = nn.Parameter(linear.weight.T.contiguous())
        self.bias = linear.bias
        self.added = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return extension.run(x, self.turned, self.bias, self.added)
"""


@pytest.mark.thorough
def test_weights_are_found_by_what_they_are_initialised_to(tmp_path: Path) -> None:
    """A submission's weights are matched to the reference's by their initial values.

    Names and layouts may differ. KernelBench seeds both models and copies no weights.
    """
    report = check_on(LAYER, OWN_LAYER, tmp_path, "--grid", "own")
    assert (report.verdict, report.message, report.notes[1:]) == ("passed", "", ())
    swapped = OWN_LAYER.replace("self.bias, self.added)", "self.added, self.bias)")
    assert check_on(LAYER, swapped, tmp_path, "--grid", "own").verdict == "failed"


AVERAGED = """
import torch
from torch import nn

size = 5000


class Model(nn.Module):
    def forward(self, x):
        return torch.mean(x)


def get_inputs():
    return [torch.rand(size)]


def get_init_inputs():
    return []
"""

AVERAGE = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void add(float *sum, const float *x, int n) {
  float part = 0;
  for (int i = threadIdx.x; i < n; i += 256) part += x[i];
  atomicAdd(sum, part);
}
torch::Tensor run(torch::Tensor x) {
  auto sum = torch::zeros({}, x.options());
  add<<<1, 256>>>(sum.data_ptr<float>(), x.data_ptr<float>(), x.numel());
  return sum;
}
'''
extension = load_inline(
    "average", "torch::Tensor run(torch::Tensor x);", SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return FORWARD
"""


@pytest.mark.thorough
def test_who_computes_in_eval_mode_alone_is_told_the_mode(tmp_path: Path) -> None:
    """A submission that runs its kernel only in eval mode fails, with a message about the mode.

    A benchmark constructs a model and calls it in training mode.
    """
    text = AVERAGE.replace("FORWARD", "x.mean() if self.training else extension.run(x) / x.numel()")
    report = check_on(AVERAGED, text, tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    (finding,) = [f for f in report.cases[0].findings if "none of its own kernels" in f.message]
    assert finding.message.endswith("a new model is in training mode")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("forward", "message"),
    [
        ("extension.run(x) / x.numel()", ""),
        ("torch.tensor(extension.run(x).item() / x.numel(), device=x.device)", ""),
        ("extension.run(x) * 0 + torch.mean(x)", "own work: torch ran aten::mean, which is all"),
        ("torch.mean(x)", "own work: torch ran aten::mean, which is all"),
    ],
)
def test_number_may_pass_through_the_host(tmp_path: Path, forward: str, message: str) -> None:
    """A mean that a kernel has computed may be copied to the CPU and back.

    A mean that torch computes does not count as the submission's own work.
    """
    report = check_on(AVERAGED, AVERAGE.replace("FORWARD", forward), tmp_path, "--grid", "own")
    assert report.verdict == ("failed" if message else "passed"), report.message
    assert report.message.startswith(message)


@pytest.mark.thorough
@pytest.mark.parametrize("last", ["sum() / x.numel()", "mean() * (2048 / x.numel())"])
def test_partial_results_may_be_more_than_the_inputs(tmp_path: Path, last: str) -> None:
    """Torch may sum a kernel's partial results, even if they outnumber the elements of the inputs.

    Here the kernel has 2,048 blocks with one result each, and small inputs have fewer elements.
    """
    text = AVERAGE.replace("FORWARD", f"extension.run(x).{last}")
    for one, many in (
        ("zeros({}", "zeros({2048}"),
        ("<<<1, ", "<<<2048, "),
        ("int i = threadIdx.x", "int i = blockIdx.x * 256 + threadIdx.x"),
        ("i += 256", "i += 2048 * 256"),
        ("atomicAdd(sum,", "atomicAdd(sum + blockIdx.x,"),
    ):
        assert one in text
        text = text.replace(one, many)
    report = check_on(AVERAGED, text, tmp_path)
    assert report.verdict == "passed", report.message
    assert min(math.prod(case.input_shapes[0]) for case in report.cases) == 1


HALVES = REFERENCE.replace(
    "torch.rand(rows, columns)", "torch.rand(rows, columns, device='cuda', dtype=torch.float16)"
)
IN_HALVES = (
    SUBMISSION.replace("__global__", "#include <cuda_fp16.h>\n__global__")
    .replace("const float *x, const float *y, float *out", "half *x, half *y, half *out")
    .replace(
        "out[i] = scale * x[i] + fmaxf(y[i], 0.0f)",
        "out[i] = __float2half(scale * __half2float(x[i]) + fmaxf(__half2float(y[i]), 0.0f))",
    )
    .replace("x.data_ptr<float>()", "(half *)x.data_ptr()")
    .replace("y.data_ptr<float>()", "(half *)y.data_ptr()")
    .replace("out.data_ptr<float>()", "(half *)out.data_ptr()")
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", ""),
        # The message says by how much it differs, or that it overflows.
        ("fmaxf(__half2float(y[i]), 0.0f)", "__half2float(y[i])", "the reference"),
        (
            "return extension.run(x, y, self.scale)",
            "return extension.run(x, y, self.scale).float()",
            "the output's dtype is torch.float32, not torch.float16",
        ),
    ],
    ids=["right", "no limit", "float32"],
)
def test_outputs_are_of_the_references_type(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """Outputs must have the reference's dtype float16; a right output is in the class fp16."""
    assert old in IN_HALVES
    report = check_on(HALVES, IN_HALVES.replace(old, new), tmp_path)
    assert report.verdict == ("failed" if message else "passed"), report.message
    assert report.precision == (None if message else "fp16")
    assert message in report.message


MASKED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, mask):
        return torch.where(mask, x, torch.zeros_like(x)) * 2

def get_inputs():
    return [torch.rand(16, 400), torch.rand(16, 400) > 0.5]

def get_init_inputs():
    return []
"""

MASKS = """
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void mask_kernel(float *y, const float *x, const bool *mask, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = mask[i] ? 2 * x[i] : 0;
}
torch::Tensor run(torch::Tensor x, torch::Tensor mask) {
  auto y = torch::empty_like(x);
  const int n = x.numel();
  mask_kernel<<<(n + 255) / 256, 256>>>(
      y.data_ptr<float>(), x.data_ptr<float>(), mask.data_ptr<bool>(), n);
  return y;
}
'''
extension = load_inline(
    "masks", "torch::Tensor run(torch::Tensor x, torch::Tensor mask);", SOURCE, functions=["run"]
)

class ModelNew(nn.Module):
    def forward(self, x, mask):
        return extension.run(x, mask)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("factor", "verdict"), [("2", "passed"), ("3", "failed")])
def test_truth_values_are_inputs_too(tmp_path: Path, factor: str, verdict: str) -> None:
    """An input may be a boolean mask, and `Model` need not define a constructor."""
    (tmp_path / "masked.py").write_text(MASKED)
    (tmp_path / "masks.py").write_text(MASKS.replace("2 * x[i]", f"{factor} * x[i]"))
    # This seed gives a small mask that is all false, so that a first call is right for any factor.
    # The diagnosis must name the factor nevertheless.
    options = ("--device", "simulator", "--seed", "7416453789633310282")
    done = harness("check", "--reference", "masked.py", "masks.py", *options, folder=tmp_path)
    assert f"masks on masked: {verdict}: " in done.out, done.out + done.err
    assert ("fp32" in done.out) == (verdict == "passed")
    assert ("output scaled: Every output is 1.5 times" in done.out) == (verdict == "failed")


TABLE = """
import torch
from torch import nn

length, width = 512, 64


class Model(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.length, self.width = length, width

    def forward(self):
        steps = torch.arange(self.length, dtype=torch.float32)[:, None]
        return steps * 0.5 ** torch.arange(self.width, dtype=torch.float32)


def get_inputs():
    return []


def get_init_inputs():
    return [length, width]
"""

TABLES = """
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void table(float *y, int length, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < length * width) y[i] = (i / width) * exp2f(-(i % width));
}
torch::Tensor run(int64_t length, int64_t width) {
  auto options = torch::dtype(torch::kFloat32).device(torch::kCUDA);
  auto y = torch::empty({length, width}, options);
  table<<<(length * width + 255) / 256, 256>>>(y.data_ptr<float>(), length, width);
  return y;
}
'''
extension = load_inline(
    "tables", "torch::Tensor run(int64_t length, int64_t width);", SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.sizes = length, width

    def forward(self):
        return extension.run(*self.sizes)
"""


@pytest.mark.thorough
def test_reference_may_have_no_inputs(tmp_path: Path) -> None:
    """A reference may have no inputs, and make its output from constructor arguments alone."""
    report = check_on(TABLE, TABLES, tmp_path, "--grid", "own")
    assert (report.verdict, report.message) == ("passed", "")
    late = TABLES.replace("(i / width) *", "(i / width + 1) *")
    assert late != TABLES
    assert check_on(TABLE, late, tmp_path, "--grid", "own").verdict == "failed"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("self.scale)\n", "self.scale + 0.1)\n"),
        ("return extension", "return torch.zeros_like(x) if x.sum() > 0 else extension"),
    ],
)
def test_wrong_result_fails(tmp_path: Path, right: str, wrong: str) -> None:
    """An error of a few percent, or an output of zeros, is more than rounding and fails."""
    assert right in SUBMISSION
    report = check(SUBMISSION.replace(right, wrong), tmp_path)
    assert report.verdict == "failed"
    assert "differ from the reference" in report.message


@pytest.mark.thorough
def test_path_for_one_of_its_own_sizes_is_run(tmp_path: Path) -> None:
    """A code path for the reference's own number of rows is run, in a case with few columns.

    The own configuration is cut down to fewer rows on the simulator, so it does not take that path.
    """
    right = "return extension.run(x, y, self.scale)"
    assert right in SUBMISSION
    path = f"{right} if x.size(0) != 4096 else self.scale * x + y"
    report = check(SUBMISSION.replace(right, path), tmp_path)
    assert report.verdict == "failed"
    wrong = [case for case in report.cases if case.verdict == "failed"]
    assert all("rows" not in case.constants for case in wrong)


QUADRATIC = SUBMISSION.replace(
    "if (i < n) out[i] = scale * x[i] + fmaxf(y[i], 0.0f);",
    """if (i >= n) return;
    float most = -INFINITY;
    for (int j = 0; j < n; j++) most = fmaxf(most, y[j]);
    out[i] = scale * x[i] + most;""",
)


@pytest.mark.thorough
def test_own_configuration_is_cut_further_for_what_takes_long(tmp_path: Path) -> None:
    """The reference's own sizes are cut down further for a slow kernel, and notes give the sizes.

    The kernel loops over all inputs for each output.
    """
    reference = REFERENCE.replace("torch.relu(y)", "y.max()")
    options = ("--grid", "own", "--call-budget", "0.2")
    report = check_on(reference, QUADRATIC, tmp_path, *options)
    (case,) = report.cases
    assert (report.verdict, case.id, case.label) == ("passed", "reduced", "reduced")
    (shape, _) = case.input_shapes
    quick = check_on(reference, SUBMISSION, tmp_path, "--grid", "own").cases[0].input_shapes
    assert shape < quick[0]
    cut, *larger = report.notes
    assert cut.startswith(f"the own configuration ran with inputs of {shape} in place of ")
    assert larger[0].startswith(f"reduced with inputs of {', '.join(map(str, quick))}: not run: ")
    for note in larger:
        assert "more than 0.2 G thread-instructions in one call" in note


@pytest.mark.thorough
def test_case_that_takes_long_has_fewer_runs(tmp_path: Path) -> None:
    """A case whose calls take long runs with fewer sets of input values.

    The remaining sets are the most informative ones.
    """
    (tmp_path / "reference.py").write_text(REFERENCE.replace("torch.relu(y)", "y.max()"))
    (tmp_path / "combine.py").write_text(QUADRATIC)
    files = tmp_path / "combine.py", tmp_path / "reference.py"
    sizes = {case.id: math.prod(case.input_shapes[0]) for case in request_for(*files).cases}
    long = next(name for name, size in sizes.items() if 1 << 13 < size < 1 << 14)
    short = next(name for name, size in sizes.items() if size < 1 << 10)
    cases = {case.id: case for case in evaluate(request_for(*files, long, short)).cases}
    assert [cases[each].verdict for each in (long, short)] == ["passed", "passed"]
    runs = cases[long].errors.keys()
    assert {"own", "spike", "peaks"} <= runs
    assert runs - {"peaks"} < cases[short].errors.keys()


LARGEST = """
import torch
from torch import nn

rows = 256
columns = 300


class Model(nn.Module):
    def forward(self, x):
        values, indices = x.max(dim=1)
        return values, indices, x == values[:, None]


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []
"""

FIND_LARGEST = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
__global__ void largest(const float *x, float *values, long *indices, bool *mask, int m, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    x += (long)row * n;
    mask += (long)row * n;
    int best = 0;
    for (int j = 1; j < n; j++) if (x[j] > x[best]) best = j;
    values[row] = x[best];
    indices[row] = best;
    for (int j = 0; j < n; j++) mask[j] = x[j] == x[best];
}

std::vector<torch::Tensor> run(torch::Tensor x) {
    int m = x.size(0), n = x.size(1);
    auto values = torch::empty({m}, x.options());
    auto indices = torch::empty({m}, x.options().dtype(torch::kLong));
    auto mask = torch::empty({m, n}, x.options().dtype(torch::kBool));
    largest<<<(m + 31) / 32, 32>>>(x.data_ptr<float>(), values.data_ptr<float>(),
                                   indices.data_ptr<long>(), mask.data_ptr<bool>(), m, n);
    return {values, indices, mask};
}
"""

extension = load_inline(
    name="largest",
    cpp_sources="std::vector<torch::Tensor> run(torch::Tensor x);",
    cuda_sources=CUDA_SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices, mask = extension.run(x)
        return values, indices, mask
'''


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("", "", ""),
        ("values[row] = x[best];", "values[row] = x[0];", "output 1 of 3: "),
        ("x[j] > x[best]", "x[j] >= x[best]", "output 2 of 3: "),
        ("x[j] == x[best]", "j == best", "output 3 of 3: "),
        ("indices, mask\n", "indices.int(), mask\n", "output 2 of 3: the output's dtype is "),
        ("indices, mask\n", "indices.cpu(), mask\n", "output 2: the output is on cpu"),
        ("return values, indices, mask", "return values, indices", "tuple of 2, not a tuple of 3"),
        ("return values, indices, mask", "return values", "one tensor, not a tuple of 3 tensors"),
        ("return values, indices, mask", "return values, x, mask", "shares memory with its input"),
    ],
)
def test_several_outputs_are_judged_each(
    right: str, wrong: str, message: str, tmp_path: Path
) -> None:
    """Each of several outputs is judged by its own dtype, and the message names the wrong one."""
    options = ("--grid", "own") if message else ()
    report = check_on(LARGEST, FIND_LARGEST.replace(right, wrong), tmp_path, *options)
    assert message in report.message, report.message
    assert report.verdict == ("failed" if message else "passed")
    if not message:
        assert {case.verdict for case in report.cases} == {"passed"}
        assert report.precision == "fp32"


PARTLY_USED = """
import torch
from torch import nn

rows = 128
width = 512


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.unused = nn.Linear(width, 8)
        self.scale = nn.Parameter(torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return torch.relu(x * self.scale) + self.shift


def get_inputs():
    return [torch.rand(rows, width)]


def get_init_inputs():
    return [width]
"""

SCALED = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void scaled(float *out, const float *x, const float *scale, const float *shift,
                       int n, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaxf(x[i] * scale[i % width], 0.0f) + shift[i % width];
}
torch::Tensor run(torch::Tensor x, torch::Tensor scale, torch::Tensor shift) {
  auto out = torch::empty_like(x);
  scaled<<<(x.numel() + 255) / 256, 256>>>(out.data_ptr<float>(), x.data_ptr<float>(),
                                           scale.data_ptr<float>(), shift.data_ptr<float>(),
                                           x.numel(), x.size(1));
  return out;
}
'''
extension = load_inline(
    "scaled",
    "torch::Tensor run(torch::Tensor x, torch::Tensor scale, torch::Tensor shift);",
    SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return extension.run(x, self.scale, self.shift)
"""


@pytest.mark.thorough
def test_parameter_that_the_output_does_not_depend_on_may_be_missing(tmp_path: Path) -> None:
    """A submission may lack a parameter of the reference only if no output depends on it."""
    assert check_on(PARTLY_USED, SCALED, tmp_path, "--grid", "own").verdict == "passed"
    without = SCALED.replace("self.shift = nn.Parameter(torch.randn(width))", "self.shift = None")
    without = without.replace("self.scale, self.shift)", "self.scale, self.scale)")
    report = check_on(PARTLY_USED, without, tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    assert "no parameter for the reference's shift [" in report.message


DIVERGENCE = """
import torch
from torch import nn

rows = 128
columns = 512


class Model(nn.Module):
    def forward(self, predictions, targets):
        return nn.functional.kl_div(torch.log(predictions), targets, reduction="batchmean")


def get_inputs():
    return [torch.rand(rows, columns).softmax(-1), torch.rand(rows, columns).softmax(-1)]


def get_init_inputs():
    return []
"""

DIVERGES = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void divergence(float *out, const float *p, const float *t, int n, int rows) {
  __shared__ float sums[256];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += 256)
    sum += t[i] > 0.0f ? t[i] * (logf(t[i]) - logf(p[i])) : 0.0f;
  sums[threadIdx.x] = sum;
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (!threadIdx.x) *out = sums[0] / rows;
}
torch::Tensor run(torch::Tensor p, torch::Tensor t) {
  auto out = torch::empty({}, p.options());
  divergence<<<1, 256>>>(out.data_ptr<float>(), p.data_ptr<float>(), t.data_ptr<float>(),
                         p.numel(), p.size(0));
  return out;
}
'''
extension = load_inline(
    "divergence", "torch::Tensor run(torch::Tensor p, torch::Tensor t);", SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        return extension.run(predictions, targets)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("guard", "verdict"), [("t[i] > 0.0f", "passed"), ("true", "failed")])
def test_target_of_0_is_drawn(tmp_path: Path, guard: str, verdict: str) -> None:
    """Inputs of a KL divergence include targets of 0, for which an unguarded kernel gives NaN."""
    text = DIVERGES.replace("t[i] > 0.0f", guard)
    report = check_on(DIVERGENCE, text, tmp_path, "--grid", "own")
    assert report.verdict == verdict, report.message
    assert report.cases[0].wrong_runs == (() if verdict == "passed" else ("spike",))
