"""The search for nvcc and the host compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from harness.compiler.cuda_homes import nvcc_version
from harness.compiler.toolchain import (
    INSTALL_NVCC,
    CudaOfGpu,
    ToolchainError,
    find_cuda_compiler,
    find_host_compiler,
    find_toolchain,
)
from tests.support import ROOT


def fake_toolkit(folder: Path, version: str, setting: str = "TOP={}") -> Path:
    """Make a folder with a fake nvcc, which prints its version, and in a dry run its folder."""
    (folder / "bin").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "include" / "cuda_runtime.h").touch()
    nvcc = folder / "bin" / "nvcc"
    nvcc.write_text(
        f"#!/bin/sh\necho 'Cuda compilation tools, release x, V{version}'\n"
        f"echo '#$ {setting.format(folder)}' >&2\n"
    )
    nvcc.chmod(nvcc.stat().st_mode | stat.S_IXUSR)
    return folder


def test_finds_a_compiler_that_runs() -> None:
    """All compilers are found on a machine that was set up as the README says."""
    toolchain = find_toolchain()
    assert nvcc_version(toolchain.cuda.home) == toolchain.cuda.version
    assert toolchain.host.path.is_file()


def test_installed_toolkit_comes_before_the_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toolkit in CUDA_HOME is used before pip's packages if its version is suitable."""
    toolkit = fake_toolkit(tmp_path / "cuda", "13.0.1")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    found = find_cuda_compiler()
    assert (found.home, found.version, found.origin) == (toolkit, "13.0.1", "toolkit")


@pytest.mark.parametrize("version", ["12.4.131", "12.8.93", "13.5.37"])
def test_compilers_of_both_major_versions_are_taken(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Toolkits of CUDA 12 and of CUDA 13 are both accepted."""
    monkeypatch.setenv("CUDA_HOME", str(fake_toolkit(tmp_path / "cuda", version)))
    assert find_cuda_compiler().version == version


def test_toolkit_of_another_version_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toolkit that is too old is skipped, and a suitable one is used."""
    monkeypatch.setenv("CUDA_HOME", str(fake_toolkit(tmp_path / "cuda", "11.8.89")))
    assert find_cuda_compiler().home != tmp_path / "cuda"


def test_lack_of_a_compiler_names_what_was_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the GPU's driver is too old for every compiler, the error names them and says why."""
    new = fake_toolkit(tmp_path / "new", "13.0.88")
    monkeypatch.setenv("CUDA_HOME", str(new))
    with pytest.raises(ToolchainError) as refusal:
        find_cuda_compiler(CudaOfGpu(driver=(11, 8), torch=(11, 8)))
    said = str(refusal.value)
    assert "the driver can load; the driver supports CUDA 11.8" in said
    assert f"{new} (CUDA 13.0.88)" in said
    assert "install a CUDA toolkit of version 11" in said


def test_packages_of_cuda_12_are_said_to_have_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If pip packages of CUDA 12 are installed, the error says that they contain no nvcc."""
    package = tmp_path / "nvidia" / "cuda_nvcc"
    (package / "bin").mkdir(parents=True)
    (package / "bin" / "ptxas").touch()
    (package.parent / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ToolchainError) as refusal:
        find_cuda_compiler(CudaOfGpu(driver=(11, 8), torch=(11, 8)))
    assert f"{package} (PyPI's packages of CUDA 12 have no nvcc" in str(refusal.value)


@pytest.mark.parametrize(
    ("driver", "torch", "taken"),
    [
        ((12, 4), (12, 8), "12.4.131"),
        ((12, 8), (12, 8), "12.9.86"),
        ((12, 9), (12, 8), "12.9.86"),
        ((13, 0), (12, 8), "12.9.86"),
        ((13, 0), (13, 0), "13.0.88"),
        ((13, 2), (13, 2), "13.0.88"),
    ],
)
def test_gpu_gets_a_compiler_whose_code_its_driver_loads(
    driver: tuple[int, int],
    torch: tuple[int, int],
    taken: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The nvcc for a GPU has the major version of torch's CUDA, and is not newer than the driver.

    If all compilers of that major version are newer than the driver, one of them is used, because
    minor versions are compatible. The simulator uses the first compiler that is found.
    """
    for name, version in (("first", "13.0.88"), ("second", "12.9.86"), ("third", "12.4.131")):
        fake_toolkit(tmp_path / name, version)
    # These variables are in the order of the search.
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "first"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "second"))
    monkeypatch.setenv("PATH", str(tmp_path / "third" / "bin"))
    if driver == (12, 8):
        shutil.rmtree(tmp_path / "third")
    found = find_cuda_compiler(CudaOfGpu(driver, torch))
    assert found.version == taken
    assert f"the driver supports CUDA {driver[0]}.{driver[1]}" in found.why
    assert find_cuda_compiler().home == tmp_path / "first"


def test_other_major_version_than_torchs_is_the_last_resort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An nvcc of another major version than torch's CUDA is used if there is no other one.

    The driver can load the code of that nvcc. `why` says which toolkit would be better.
    """
    monkeypatch.setenv("CUDA_HOME", str(fake_toolkit(tmp_path / "only", "12.8.93")))
    monkeypatch.setenv("PATH", str(tmp_path))
    gpu = CudaOfGpu(driver=(12, 9), torch=(13, 0))
    found = find_cuda_compiler(gpu)
    assert found.version == "12.8.93"
    assert "torch has 13.0, and nvcc's major version differs from torch's: install" in found.why


def test_toolkit_of_debians_layout_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CUDA toolkit of Debian's packages is found through the nvcc on the PATH.

    That nvcc is a script, and the real nvcc is in another folder.
    """
    toolkit = fake_toolkit(tmp_path / "lib" / "toolkit", "12.4.131", "_HERE_={}/bin")
    real = toolkit / "bin" / "nvcc"
    wrapper = tmp_path / "bin" / "nvcc"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    assert find_cuda_compiler().home == toolkit


def test_toolkit_is_found_through_a_wrapper_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toolkit is found if the nvcc on the PATH is a script that calls the real nvcc elsewhere."""
    real = find_cuda_compiler()
    wrapper = tmp_path / "nvcc"
    wrapper.write_text(f'#!/bin/sh\nexec {real.nvcc} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert find_cuda_compiler().home.resolve() == real.home.resolve()


def test_command_for_nvcc_installs_what_the_extra_does() -> None:
    """The pip command that an error suggests for nvcc installs the extra `simulator`'s packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert shlex.split(INSTALL_NVCC) == [
        "pip",
        "install",
        *project["optional-dependencies"]["simulator"],
    ]


def fake_gcc(path: Path, major: int) -> Path:
    """Make a fake g++, which prints its version."""
    path.write_text(f"#!/bin/sh\necho '#define __GNUC__ {major}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_host_compiler_is_one_that_nvcc_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If g++ is too new for nvcc, an older g++ is used, or an error says how to install one."""
    toolkit = fake_toolkit(tmp_path / "cuda", "12.4.131")
    limits = toolkit / "include" / "crt" / "host_config.h"
    limits.parent.mkdir()
    limits.write_text("#error -- gcc versions later than 13 are not supported!\n")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    monkeypatch.delenv("CXX", raising=False)
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    fake_gcc(programs / "g++", 16)
    with pytest.raises(ToolchainError, match=r"too new for nvcc .*; run: apt-get install g\+\+-13"):
        find_toolchain()
    older = fake_gcc(programs / "g++-12", 12)
    assert find_toolchain().host.path == older
    assert find_host_compiler().path == programs / "g++"
    monkeypatch.setenv("CXX", "g++")
    assert find_toolchain().host.path == programs / "g++"


def test_missing_host_compiler_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error for a missing host compiler contains a command that installs one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError, match=r"apt-get install g\+\+"):
        find_toolchain()
