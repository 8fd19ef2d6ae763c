"""CUDA headers other than the runtime's, included by a submission on the simulator.

Header-only libraries work. The headers of compiled libraries only declare functions. The simulator
computes none of these functions except cuBLAS's matrix products.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.simulator.support import answers_of

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("cuda_headers.cu")

SCRIPT = """
import json, sys
from pathlib import Path
import torch
from torch.utils.cpp_extension import load_inline
from harness.compiler.builder import Builder
from harness.compiler.cache import Cache, default_root
from harness.compiler.compiler import Compiler
from harness.compiler.extension import ExtensionLoader
from harness.compiler.flags import Target
from harness.compiler.toolchain import find_toolchain
from harness.simulator.native.library import Libraries
from tests.simulator.connected import Connected
from harness.simulator.hardware.resources import parse_usage, resource_usage

toolchain = find_toolchain()
compiler = Compiler(toolchain)
cache = Cache(default_root())
usage = lambda code: parse_usage(resource_usage(toolchain.cuda, compiler, cache, code))
device = Connected(Libraries(*map(Path, sys.argv[1:5])), usage)
builder = Builder(toolchain, cache, Target("simulator"), compiler)
ExtensionLoader(Path(__file__), lambda asked: builder.build(asked).library.read_bytes()).install()
ON_TENSORS = ["to_half", "to_bfloat16", "to_fp8", "groups", "group_copy", "block_reduce", "matrix",
              "pipeline", "at_barrier", "constants", "random_numbers", "xorwow", "device_reduce",
              "thrust_transform", "marked", "products"]
LIBRARIES = ["call_dnn", "call_sparse", "call_solver", "call_fft", "call_random"]
ext = load_inline(
    name="cuda_headers",
    cpp_sources="".join(f"torch::Tensor {name}(torch::Tensor x);" for name in ON_TENSORS)
    + "".join(f"void {name}();" for name in LIBRARIES)
    + "int64_t prepared(); void call_blas(torch::Tensor x); double thrust_reduce(torch::Tensor x);",
    cuda_sources=Path(sys.argv[5]).read_text(),
    functions=[*ON_TENSORS, *LIBRARIES, "prepared", "call_blas", "thrust_reduce"],
    extra_cuda_cflags=["--extended-lambda"],
)
x = torch.arange(256.0, device="cuda")
seen = {name: getattr(ext, name)(x).tolist() for name in ON_TENSORS}
seen["thrust_reduce"] = ext.thrust_reduce(x)
seen["prepared"] = ext.prepared()
seen["findings"] = [finding.message for finding in device.observe().findings]
for name, arguments in (("call_blas", (x,)), *((name, ()) for name in LIBRARIES)):
    getattr(ext, name)(*arguments)
    failure = device.observe().failure
    if failure:
        seen[name] = failure.message
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return, by name, what each function of cuda_headers.cu returned on the simulated device."""
    return answers_of(SCRIPT, SOURCE, tmp_path_factory.mktemp("headers"))


NUMBERS = [float(n) for n in range(256)]
SUM = sum(NUMBERS)

EXPECTED = {
    "to_half": [n + 1 for n in NUMBERS],
    "to_bfloat16": [2 * n for n in NUMBERS],
    "groups": [sum(NUMBERS[n // 32 * 32 :][:32]) for n in range(256)],
    "group_copy": NUMBERS[::-1],
    "block_reduce": [SUM, *[0.0] * 255],
    "matrix": NUMBERS,
    "pipeline": [n + 1 for n in NUMBERS],
    "at_barrier": NUMBERS[::-1],
    "device_reduce": [SUM],
    "thrust_reduce": SUM,
    "thrust_transform": [3 * n for n in NUMBERS],
    "marked": [n + 1 for n in NUMBERS],
    "prepared": 0,
    "findings": [],
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXPECTED)
def test_headers_of_templates_work(seen: dict[str, object], name: str) -> None:
    """Kernels that use cub, thrust, wmma, cooperative groups and similar headers are right."""
    assert seen[name] == EXPECTED[name]


@pytest.mark.thorough
def test_eight_bit_floats_are_rounded(seen: dict[str, object]) -> None:
    """Conversion to E4M3 (three fraction bits) rounds integers above 16 to even ones."""
    values = seen["to_fp8"]
    assert isinstance(values, list)
    assert values[:20] == [*NUMBERS[:17], 16.0, 18.0, 20.0]


@pytest.mark.thorough
def test_products_of_matrices_are_computed(seen: dict[str, object]) -> None:
    """The simulator computes cuBLAS products of column-major float matrices.

    The matrices may be transposed, scaled or batched, and one may be a vector.
    """
    numbers = torch.arange(256.0)
    a, b = numbers[:6].view(3, 2).T, numbers[6:12].view(2, 3).T
    b_turned = numbers[6:12].view(3, 2)
    # A batch of two matrices; the second lies behind the first.
    tall = torch.stack([numbers[:3], numbers[6:9]])
    both = (tall @ b).flatten()
    rows = torch.ones(4, 16)
    rows[0, :4] = (a @ b).T.flatten()
    rows[1, :4] = (a @ b_turned).T.flatten() + 2
    rows[2, :4] = both
    rows[3, :3] = a.T @ numbers[:2]
    rows[3, 3:7:2] = a @ numbers[0:6:2]
    assert seen["products"] == rows.tolist()


@pytest.mark.thorough
def test_constants_of_mathematics(seen: dict[str, object]) -> None:
    """math_constants.h defines float infinity and float pi."""
    assert seen["constants"] == [float("inf"), *[3.1415927410125732] * 255]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["random_numbers", "xorwow"])
def test_random_numbers_are_drawn_in_kernels(seen: dict[str, object], name: str) -> None:
    """The device functions of curand give different numbers in each thread, with the right mean."""
    values = seen[name]
    assert isinstance(values, list)
    assert len(set(values)) > 250
    mean = 0.5 if name == "random_numbers" else 0.0
    assert abs(sum(values) / 256 - mean) < 0.25


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("call_blas", "cublasDgemm"),
        ("call_dnn", "cudnnConvolutionForward"),
        ("call_sparse", "cusparseSpMV"),
        ("call_solver", "cusolverDnSgetrf"),
        ("call_fft", "cufftExecC2C"),
        ("call_random", "curandGenerateUniform"),
    ],
)
def test_call_of_a_library_is_told(seen: dict[str, object], call: str, function: str) -> None:
    """A call of a compiled library's function is reported by the function's name.

    A submission that only includes the library's header is not reported.
    """
    assert seen[call] == f"the library function {function} did the work"
