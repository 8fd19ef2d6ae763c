"""Where CUDA compilers lie: installed toolkits, Debian's own package, PyPI's packages."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

CUDA_MAJORS = (12, 13)
"""Major versions whose compilers are taken; docs/machines.md says which were run."""

SYSTEM_HEADERS = Path("/usr/include")


def release_of(version: str) -> tuple[int, int]:
    """Major and minor version.

    >>> release_of("12.4.131")
    (12, 4)
    """
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def include_folder(home: Path) -> Path | None:
    """The folder of cuda_runtime.h; Debian's own package has it among the system's headers."""
    folders = [home / "include"]
    if home.is_relative_to("/usr/lib"):
        folders.append(SYSTEM_HEADERS)
    return next((each for each in folders if (each / "cuda_runtime.h").is_file()), None)


def cuda_homes() -> Iterator[tuple[Path, str]]:
    """Where an nvcc may be, in the order of preference, and whether it is a toolkit or wheels."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]), "toolkit"
    on_path = shutil.which("nvcc")
    if on_path and (home := _home_of(on_path)):
        yield home, "toolkit"
    installed = Path("/usr/local")
    if (installed / "cuda").is_dir():
        yield installed / "cuda", "toolkit"
    numbered = [
        each for each in installed.glob("cuda-*") if re.fullmatch(r"cuda-\d+\.\d+", each.name)
    ]
    for home in sorted(numbered, key=lambda each: release_of(each.name[5:]), reverse=True):
        yield home, "toolkit"
    for major in sorted(CUDA_MAJORS, reverse=True):
        for home in wheel_homes(major):
            # That of CUDA 12 has none, which is worth a word where nothing else is found.
            if (home / "bin" / "nvcc").is_file() or home.name == _NVCC_OF_CUDA_12:
                yield home, "wheels"


_NVCC_OF_CUDA_12 = "cuda_nvcc"

# Where PyPI's packages put their files, below nvidia/: those of CUDA 13 all in one folder, those of
# CUDA 12 each in its own.
_FOLDERS_OF_WHEELS = {
    13: ("cu13",),
    12: (_NVCC_OF_CUDA_12, "cuda_runtime", "cuda_cccl", "curand", "nvtx"),
}


def wheel_homes(major: int) -> list[Path]:
    """Where PyPI's packages of a major version of CUDA lie, each with its `include`."""
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    homes = (Path(folder) / name for name in _FOLDERS_OF_WHEELS[major] for folder in folders)
    return [home for home in homes if home.is_dir()]


def _home_of(nvcc: str) -> Path | None:
    """CUDA_HOME of an nvcc on the PATH, which may be a link or a wrapper script.

    A dry run prints the settings of nvcc.profile, TOP among them; Debian's has only the folder of
    the program.
    """
    command = [nvcc, "--dryrun", "-E", "-x", "cu", os.devnull]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    found = re.search(r"^#\$ TOP=(.+)$", output, re.MULTILINE)
    if found:
        return Path(found[1]).resolve()
    here = re.search(r"^#\$ _HERE_=(.+)$", output, re.MULTILINE)
    return Path(here[1]).resolve().parent if here else None


def nvcc_version(home: Path) -> str | None:
    """The release of `home`'s nvcc, such as `13.0.88`, or None where it does not run."""
    try:
        output = subprocess.run(
            [home / "bin" / "nvcc", "--version"], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return None
    found = re.search(r"\bV(\d+\.\d+\.\d+)", output)
    return found[1] if found else None
