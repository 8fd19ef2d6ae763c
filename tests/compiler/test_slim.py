"""The slim headers, the smallest of the harness's torch headers, behave like torch's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import check
from harness.compiler import slim
from harness.compiler.builder import Builder
from harness.compiler.cache import Cache
from harness.compiler.compiler import Compiler
from harness.compiler.flags import Extension, Target, torch_language_standard
from harness.compiler.toolchain import find_toolchain

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x + x


def get_inputs():
    return [torch.rand(4, 6)]


def get_init_inputs():
    return []
"""

# The submission calls each of its functions in a build of either kind, and compares the outcomes.
SUBMISSION = r'''
import numpy
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

template <typename T>
__global__ void twice(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}

torch::Tensor doubled(torch::Tensor x) {
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    TORCH_CHECK(x.is_cuda() && x.dim() == 2, "x is on ", x.device(), " with sizes ", x.sizes());
    auto in = x.contiguous();
    auto out = torch::empty_like(in);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(in.scalar_type(), "doubled", [&] {
        twice<scalar_t><<<1, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
            in.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), static_cast<int>(in.numel()));
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

std::vector<int64_t> counts(torch::Tensor x) {
    return {x.dim(), x.numel(), x.size(0), x.size(-1), x.stride(0), x.storage_offset(),
            static_cast<int64_t>(x.nbytes()), x.element_size(), x.is_contiguous(),
            x.get_device(), x.requires_grad(), x.defined(), x.sizes()[1], x.strides()[1],
            x.dtype() == torch::kFloat32, x.scalar_type() == torch::kHalf};
}

torch::Tensor out_of_range(torch::Tensor x) {
    return x.select(0, x.size(7));
}

torch::Tensor unchecked(torch::Tensor x) {
    TORCH_CHECK(x.size(0) == 3);
    return x;
}

torch::Tensor worded(torch::Tensor x) {
    TORCH_CHECK(false, "a", 'b', 1, -2L, 3u, 0.5, 1.0f / 3, true, std::string("c"), x.dtype(), " ",
                x.scalar_type(), x.device(), x.sizes(), x.strides(), x.device().type());
    return x;
}

torch::Tensor wrong_type(torch::Tensor x) {
    return torch::full({1}, x.data_ptr<int>() == nullptr);
}

bool read_only(torch::Tensor x) {
    return x.const_data_ptr<float>() == x.data_ptr() && x.mutable_data_ptr<float>();
}

torch::Tensor no_device(torch::Tensor x) {
    const c10::cuda::CUDAGuard guard(3);
    return x;
}

torch::Tensor refused_launch(torch::Tensor x) {
    twice<float><<<1, 4096>>>(x.data_ptr<float>(), x.data_ptr<float>(), 0);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return x;
}

std::vector<torch::Tensor> made(torch::Tensor x) {
    auto options = torch::TensorOptions().dtype(torch::kInt64).device(torch::kCPU);
    return {torch::zeros({2, 3}, x.options()), torch::ones({2}, options),
            torch::full({2}, 1.5, x.options().dtype(torch::kFloat64)), torch::full({2}, 7, options),
            torch::full({2}, true, torch::kBool),
            torch::zeros_like(x, torch::kHalf), torch::ones_like(x), torch::full_like(x, 2),
            torch::zeros({0}, torch::dtype(torch::kBFloat16).device(torch::kCUDA, 0)),
            at::zeros(x.sizes().vec(), at::device(at::kCPU).dtype(at::kByte))};
}

std::vector<torch::Tensor> viewed(torch::Tensor x) {
    auto y = x.clone();
    y.fill_(3).zero_();
    y.copy_(x);
    return {x.view({-1}), x.reshape({6, 4}), x.t(), x.transpose(0, 1).contiguous(),
            x.permute({1, 0}), x.unsqueeze(0).squeeze(0), x.flatten(), x.select(1, 2),
            x.narrow(0, 1, 2), x.unsqueeze(1).expand({4, 5, 6}), x.to(torch::kFloat64),
            x.to(torch::kCPU), x.to(x.options().dtype(torch::kHalf)), x.detach(), y, x.squeeze()};
}

std::string items(torch::Tensor x) {
    auto first = x.select(0, 0).select(0, 0).to(torch::kCPU);
    return std::to_string(first.item<float>()) + std::to_string(first.item<bool>()) +
           std::to_string(first.to(torch::kLong).item<int64_t>());
}

std::string taken(torch::Tensor x, const torch::Tensor& y, std::vector<torch::Tensor> more,
                  c10::optional<torch::Tensor> maybe, bool b, int i, int64_t j, float f, double d,
                  const std::string& text, std::vector<int64_t> numbers, c10::optional<int64_t> k,
                  c10::optional<double> e) {
    auto shown = text + std::to_string(x.dim()) + std::to_string(y.dim()) + std::to_string(b) +
                 std::to_string(i) + " " + std::to_string(j) + " " + std::to_string(f) + " " +
                 std::to_string(d) + std::to_string(k.value_or(-7));
    shown += std::to_string(e.value_or(7.5));
    for (auto& each : more) shown += std::to_string(each.numel()) + ",";
    for (auto each : numbers) shown += std::to_string(each) + ";";
    return shown + std::to_string(maybe.has_value());
}

std::tuple<torch::Tensor, torch::Tensor> two(torch::Tensor& x) { return {x, x.t()}; }
unsigned three(unsigned x, size_t y) { return x + static_cast<unsigned>(y); }
void nothing() {}
torch::Tensor refused(int how) {
    if (how == 0) throw std::out_of_range("too far");
    if (how == 1) throw std::invalid_argument("no such thing");
    throw std::runtime_error("not today");
}

torch::Tensor or_else(c10::optional<torch::Tensor> maybe, torch::Tensor x) {
    torch::Tensor none;
    if (none.defined()) return none;
    torch::Tensor moved = std::move(x);
    x = maybe.has_value() ? *maybe : moved;
    return x;
}

int64_t multiprocessors(torch::Tensor x) {
    auto before = at::cuda::getCurrentCUDAStream();
    auto other = at::cuda::getStreamFromPool();
    at::cuda::setCurrentCUDAStream(other);
    bool is_other = at::cuda::getCurrentCUDAStream() == other && other != before;
    at::cuda::setCurrentCUDAStream(before);
    before.synchronize();
    AT_CUDA_CHECK(cudaGetLastError());
    return at::cuda::getCurrentDeviceProperties()->multiProcessorCount + 1000 * is_other;
}
"""
NAMES = ["doubled", "counts", "out_of_range", "unchecked", "worded", "wrong_type", "read_only",
         "no_device", "refused_launch", "made", "viewed", "items", "multiprocessors", "two"]
CPP = """
#include <torch/extension.h>
torch::Tensor or_else(c10::optional<torch::Tensor> maybe, torch::Tensor x);
torch::Tensor doubled(torch::Tensor x);
std::vector<int64_t> counts(torch::Tensor x);
torch::Tensor out_of_range(torch::Tensor x);
torch::Tensor unchecked(torch::Tensor x);
torch::Tensor worded(torch::Tensor x);
torch::Tensor wrong_type(torch::Tensor x);
bool read_only(torch::Tensor x);
torch::Tensor no_device(torch::Tensor x);
torch::Tensor refused_launch(torch::Tensor x);
std::vector<torch::Tensor> made(torch::Tensor x);
std::vector<torch::Tensor> viewed(torch::Tensor x);
std::string items(torch::Tensor x);
int64_t multiprocessors(torch::Tensor x);
std::string taken(torch::Tensor, const torch::Tensor&, std::vector<torch::Tensor>,
                  c10::optional<torch::Tensor>, bool, int, int64_t, float, double,
                  const std::string&, std::vector<int64_t>, c10::optional<int64_t>,
                  c10::optional<double>);
std::tuple<torch::Tensor, torch::Tensor> two(torch::Tensor& x);
unsigned three(unsigned x, size_t y);
void nothing();
torch::Tensor refused(int how);
"""
OTHERS = ["or_else", "taken", "three", "nothing", "refused"]
# A C++ source that has torch's own headers, beside a CUDA source that has the slim ones.
MIXED = """
#include <torch/extension.h>
#include <ATen/Context.h>
torch::Tensor same(torch::Tensor x);
std::vector<int64_t> also_here(torch::Tensor x) {
    auto y = torch::empty({2}, same(x).options().dtype(torch::kHalf));
    return {x.dtype() == torch::kFloat32, y.dtype() == torch::kHalf, y.device().is_cuda()};
}
"""
SAME = """
#include <torch/extension.h>
torch::Tensor same(torch::Tensor x) { return x; }
torch::Tensor refused(int64_t how) { throw std::invalid_argument("no such thing"); }
"""
BOUND = SAME + """
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("same", &same, "The same.").def("refused", refused);
    m.def("refused", &same);
}
"""


def build(name, more):
    # The first has a template of each dtype's arithmetic, which half has only without these.
    half = ["-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__"]
    return load_inline(
        name=name,
        cpp_sources=CPP,
        cuda_sources=more + SOURCE,
        functions=[*NAMES, *OTHERS],
        extra_cuda_cflags=half,
    )


LIGHT = "#include <c10/core/Allocator.h>\n"
slim = build("slim", "")
light = build("light", LIGHT)
mixed = load_inline("mixed", cpp_sources=MIXED, cuda_sources=SAME, functions=["also_here"])
bound = load_inline("bound", cpp_sources="", cuda_sources=BOUND)
bound_light = load_inline("bound_light", cpp_sources="", cuda_sources=LIGHT + BOUND)


def outcome(function, *arguments):
    try:
        result = function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    made = result if isinstance(result, (list, tuple)) else [result]
    return [
        (x.dtype, x.device, x.shape, x.stride(), x.requires_grad, x.tolist())
        if isinstance(x, torch.Tensor) else x
        for x in made
    ]


def compare(one, other, name, *arguments):
    """Two modules' functions: what they give, and their documentation."""
    first, second = getattr(one, name), getattr(other, name)
    if first.__doc__ != second.__doc__:
        raise AssertionError(first.__doc__, second.__doc__)
    given, expected = outcome(first, *arguments), outcome(second, *arguments)
    if repr(given) != repr(expected):
        # Of lists, what differs.
        pairs = zip(given, expected) if isinstance(given, list) else [(given, expected)]
        raise AssertionError(name, [pair for pair in pairs if repr(pair[0]) != repr(pair[1])])


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        x = torch.arange(24.0, device="cuda").reshape(4, 6)
        others = [x, x.half(), x.double(), x.int(), x.t(), x.cpu(), x[0], x[1:, 2:]]
        calls = [(name, other) for name in NAMES for other in others]
        calls += [("or_else", None, x), ("or_else", x + 1, x), ("doubled", 3), ("doubled",)]
        right = [x, x, [x, x], None, True, 1, 2**40, 0.5, 1, "t", (1, 2), None, None]
        others = [x, [x], 3, -1, 2**31, 2**70, 1.5, True, None, "u", b"v", [1.5], numpy.float32(2)]
        calls += [("taken", *right), ("taken", *right, 1)]
        calls += [("taken", *right[:n], other, *right[n + 1:])
                  for n in range(len(right)) for other in others]
        calls += [("three", *pair) for pair in [(1, 2), (-1, 2), (1, 2**63), (2**32, 1)]]
        calls += [("nothing",), ("nothing", 1), *(("refused", how) for how in range(3))]
        for name, *arguments in calls:
            compare(slim, light, name, *arguments)
        for name in ("same", "refused"):
            for argument in (x, 1, None):
                compare(bound, bound_light, name, argument)
        if mixed.also_here(x) != [1, 1, 1]:
            raise AssertionError("mixed")

    def forward(self, x):
        return slim.doubled(x)
'''


@pytest.mark.thorough
def test_slim_headers_do_what_torchs_do(tmp_path: Path) -> None:
    """Code with slim headers gives the same results, views and errors as with light headers."""
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "submission.py").write_text(SUBMISSION)
    report = check(tmp_path / "submission.py", tmp_path / "reference.py")
    assert report.verdict == "passed", report.message
    headers = {build.name: build.headers for build in report.builds}
    assert headers == {
        "slim": "slim", "light": "light", "mixed": "slim", "bound": "slim", "bound_light": "light"
    }  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "#include <torch/csrc/autograd/variable.h>",
        "torch::Tensor f(torch::Tensor x) { return torch::softmax(x, 1); }",
        "torch::Tensor f(torch::Tensor x) { return x.sum(); }",
        "void f() { TORCH_WARN(1); }",
        "#include <cub/cub.cuh>",
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f, py::arg("x")); }',
    ],
)
def test_what_slim_headers_lack_is_seen(code: str) -> None:
    """A source that uses more of torch than slim headers have is not compiled with them."""
    assert not slim.sources(Extension("e", (("cuda.cu", code),)))


@pytest.mark.parametrize(
    "code",
    [
        "// torch::softmax(x) of rows\nvoid f() {}",
        'void f() { asm("x.sum();"); }',
        "struct S { void sum(); }; void f(S s) { s.sum(); }",
        "#include <cuda_fp16.h>\n#include <c10/util/Half.h>\nvoid f(c10::Half) {}",
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }',
    ],
)
def test_what_is_not_torchs_does_not_matter(code: str) -> None:
    """A source gets slim headers if only comments, strings or its own types resemble torch's."""
    assert slim.sources(Extension("e", (("cuda.cu", code),))) == {"cuda.cu"}


def test_types_that_torch_has_otherwise_are_not_passed_on() -> None:
    """CUDA sources get no slim headers if a C++ source uses certain types of torch.

    The slim headers lay out these types differently, so the sources could not exchange them.
    """
    sources = (("main.cpp", "void f(at::TensorOptions options);"), ("cuda.cu", "void g() {}"))
    assert not slim.sources(Extension("e", sources))


LEAVING_OUT = {
    "HALF": ["-DHARNESS_WITHOUT_HALF"],
    "ALGORITHM": ["-DHARNESS_WITHOUT_ALGORITHM"],
    "TEXTURE": ["-D__TEXTURE_INDIRECT_FUNCTIONS_H__", "-D__SURFACE_INDIRECT_FUNCTIONS_H__"],
}


@pytest.mark.parametrize(
    ("code", "left_out"),
    [
        ("int f() { return std::max(1, 2); } // half of it", "HALF ALGORITHM TEXTURE"),
        ("int f() { return std::gcd(6, 4); }", "HALF ALGORITHM TEXTURE"),
        ("void f(std::vector<int> v) { std::sort(v.begin(), v.end()); }", "HALF TEXTURE"),
        ("int f() { return std::max({1, 2, 3}); }", "HALF TEXTURE"),
        ("using namespace std; int f() { return max(1, 2); }", "HALF TEXTURE"),
        ("__global__ void f(__half* x) {}", "ALGORITHM TEXTURE"),
        ("AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, [] {})", "ALGORITHM TEXTURE"),
        ("void f(at::BFloat16 x) { std::swap(x, x); }", "ALGORITHM TEXTURE"),
        ("__device__ float f(cudaTextureObject_t t) { return 0; }", "HALF ALGORITHM"),
        ("__device__ float f(long t) { return tex1Dfetch<float>(t, 0); }", "HALF ALGORITHM"),
    ],
)
def test_large_headers_that_a_source_does_not_use_are_left_out(code: str, left_out: str) -> None:
    """A source without types of 16 bits is compiled without their headers.

    A source that uses only common names of the standard library is compiled without <algorithm>,
    and a source that reads no texture without the header of textures.
    """
    expected = {flag for name in left_out.split() for flag in LEAVING_OUT[name]}
    assert set(slim.definitions(code)) == {*expected, "-D_GLIBCXX_BITS_SPECFUN_H"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("int f();", True),
        ("// __cplusplus\nint f();", True),
        ("#if __cplusplus > 201703L\nint f();\n#endif", False),
    ],
)
def test_source_that_asks_for_its_standard_gets_no_other(code: str, *, expected: bool) -> None:
    """A source is tried as C++17 unless it asks for its language standard."""
    is_newer = torch_language_standard() != slim.OLDER
    assert slim.may_be_older(Extension("e", (("cuda.cu", code),))) is (expected and is_newer)


NEWER = """
template <typename T>
requires(sizeof(T) == 4)
int64_t size_of(T) { return sizeof(T); }

torch::Tensor run(torch::Tensor x) {
    return size_of(1.0f) == 4 ? torch::empty_like(x) : x;
}
"""


@pytest.mark.thorough
def test_source_of_newer_cplusplus_has_slim_headers(tmp_path: Path) -> None:
    """A source with syntax that C++17 lacks is compiled with the standard of its flags."""
    toolchain = find_toolchain()
    extension = Extension(
        "newer",
        (("cuda.cu", f"#include <torch/extension.h>\n{NEWER}"),),
        cuda_flags=("-std=c++20",),
    )
    builder = Builder(toolchain, Cache(tmp_path), Target("simulator"), Compiler(toolchain))
    assert builder.build(extension).notes["headers"] == "slim"
