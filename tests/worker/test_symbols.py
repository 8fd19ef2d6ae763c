"""The search for functions that an extension would take from a real GPU's libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.compiler.cuda_homes import wheel_homes
from harness.compiler.toolchain import find_toolchain
from tests.support import run

SOURCE = """
extern "C" int cudaGraphCreate(void **, unsigned);
extern "C" int printf(const char *, ...);
extern "C" int sim_connect(int);
int used() { return cudaGraphCreate(nullptr, 0) + printf("") + sim_connect(0); }
"""

SCRIPT = """
import ctypes, sys
from pathlib import Path
from harness.worker.inside.symbols import symbols_of_a_gpu

library = Path(sys.argv[1]).read_bytes()
print(symbols_of_a_gpu(library))
ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
print(symbols_of_a_gpu(library))
"""


def _real_runtime() -> Path:
    cuda = find_toolchain().cuda
    homes = (cuda.home, *wheel_homes(cuda.release[0]))
    found = [path for home in homes for path in home.glob("lib*/libcudart.so*")]
    if not found:
        pytest.skip("no libcudart is installed here")
    return found[0]


def test_functions_of_a_gpus_libraries_are_told(tmp_path: Path) -> None:
    """An extension's undefined functions that a loaded CUDA library provides are listed.

    Undefined functions that are missing everywhere, or that every process has, are not listed.
    """
    (tmp_path / "used.cpp").write_text(SOURCE)
    (tmp_path / "script.py").write_text(SCRIPT)
    compile_it = [str(find_toolchain().host.path), "-shared", "-fPIC", "used.cpp", "-o", "used.so"]
    subprocess.run(compile_it, cwd=tmp_path, check=True)
    done = run([sys.executable, "script.py", "used.so", str(_real_runtime())], tmp_path)
    assert done.out.splitlines() == ["[]", "['cudaGraphCreate']"], done.err
