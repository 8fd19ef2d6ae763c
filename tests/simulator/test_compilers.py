"""Tests of the simulator repeated with every other version of nvcc on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.compiler.toolchain import CudaCompiler, find_cuda_compilers
from harness.system.interpreter import command
from tests.support import run

pytestmark = pytest.mark.simulator_only

HERE = Path(__file__).parent
# Shuffles and barriers, packed arithmetic, atomics, library functions, and matrices. Their results
# must equal those that a GPU gave for the code of nvcc 13.0.
PART = ("test_warps.py", "test_half.py", "test_atomics.py", "test_functions.py", "test_wmma.py")
ONLY_ONE = pytest.mark.skip("no second compiler is here, such as a toolkit beside PyPI's packages")
OTHERS = find_cuda_compilers()[1:]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "compiler",
    OTHERS or [pytest.param(None, marks=ONLY_ONE)],
    ids=[each.version for each in OTHERS] or ["none"],
)
def test_ptx_of_other_compilers_is_executed(compiler: CudaCompiler) -> None:
    """PTX that an older or newer nvcc makes of the same kernels gives the results of a GPU."""
    tests = [HERE / name for name in PART]
    asked = command("pytest", "-q", "-p", "no:cacheprovider", *map(str, tests))
    done = run(asked, HERE.parent.parent, CUDA_HOME=str(compiler.home))
    assert done.status == 0, done.out[-4000:]
    assert " passed" in done.out
