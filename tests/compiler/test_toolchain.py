"""Finding compilers."""

from __future__ import annotations

import os
import shlex
import stat
import tomllib
from pathlib import Path

import pytest

from harness.compiler.toolchain import (
    INSTALL_NVCC,
    ToolchainError,
    find_cuda_compiler,
    find_toolchain,
    nvcc_version,
)
from tests.support import ROOT


def fake_toolkit(folder: Path, version: str) -> Path:
    """A folder with an nvcc that only tells its version."""
    (folder / "bin").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "include" / "cuda_runtime.h").touch()
    nvcc = folder / "bin" / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release x, V{version}'\n")
    nvcc.chmod(nvcc.stat().st_mode | stat.S_IXUSR)
    return folder


def test_finds_a_compiler_that_runs() -> None:
    """On a machine that was set up as the README says, everything is there."""
    toolchain = find_toolchain()
    assert nvcc_version(toolchain.cuda.home) == toolchain.cuda.version
    assert toolchain.host.path.is_file()


def test_installed_toolkit_comes_before_the_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA_HOME is used when it is of the right version."""
    toolkit = fake_toolkit(tmp_path / "cuda", "13.0.1")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    found = find_cuda_compiler()
    assert (found.home, found.version, found.origin) == (toolkit, "13.0.1", "toolkit")


def test_toolkit_of_another_version_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toolkit that is too old does not keep a good compiler from being found."""
    monkeypatch.setenv("CUDA_HOME", str(fake_toolkit(tmp_path / "cuda", "11.8.89")))
    assert find_cuda_compiler().home != tmp_path / "cuda"


def test_toolkit_is_found_through_a_wrapper_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An nvcc on the PATH may be a script that calls the real one somewhere else."""
    real = find_cuda_compiler()
    wrapper = tmp_path / "nvcc"
    wrapper.write_text(f'#!/bin/sh\nexec {real.nvcc} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert find_cuda_compiler().home.resolve() == real.home.resolve()


def test_command_for_nvcc_installs_what_the_extra_does() -> None:
    """Whoever lacks a compiler is told a command that works, whatever this package is called."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert shlex.split(INSTALL_NVCC) == [
        "pip",
        "install",
        *project["optional-dependencies"]["simulator"],
    ]


def test_missing_host_compiler_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the command to run."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError, match=r"apt-get install g\+\+"):
        find_toolchain()
