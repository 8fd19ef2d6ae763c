"""Search for CUDA compilers: installed toolkits, Debian's package, and PyPI's packages (wheels)."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

CUDA_MAJORS = (12, 13)
"""Major versions of supported compilers; docs/machines.md lists the releases that were tested."""

SYSTEM_HEADERS = Path("/usr/include")


def release_of(version: str) -> tuple[int, int]:
    """Return the major and minor number of a version.

    >>> release_of("12.4.131")
    (12, 4)
    """
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def include_folder(home: Path) -> Path | None:
    """Return the folder of cuda_runtime.h for a CUDA_HOME, or None if the file is missing.

    Debian's package puts cuda_runtime.h into /usr/include.
    """
    folders = [home / "include"]
    if home.is_relative_to("/usr/lib"):
        folders.append(SYSTEM_HEADERS)
    return next((each for each in folders if (each / "cuda_runtime.h").is_file()), None)


def cuda_homes() -> Iterator[tuple[Path, str]]:
    """Yield folders that may contain an nvcc, and their origins, in order of preference.

    The origin is `toolkit` or, for PyPI's packages, `wheels`.
    """
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
            # CUDA 12's package has no nvcc. It is yielded all the same, so that the error message
            # can say so.
            if (home / "bin" / "nvcc").is_file() or home.name == _NVCC_OF_CUDA_12:
                yield home, "wheels"


_NVCC_OF_CUDA_12 = "cuda_nvcc"

# Folders of PyPI's packages below nvidia/. CUDA 13's packages share one folder; CUDA 12's have one
# each.
_FOLDERS_OF_WHEELS = {
    13: ("cu13",),
    12: (_NVCC_OF_CUDA_12, "cuda_runtime", "cuda_cccl", "curand", "nvtx"),
}


def wheel_homes(major: int) -> list[Path]:
    """Return the folders of PyPI's installed packages for a major version of CUDA.

    CUDA 13's packages share one folder. CUDA 12's packages have one folder each, with its own
    `include`.
    """
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    homes = (Path(folder) / name for name in _FOLDERS_OF_WHEELS[major] for folder in folders)
    return [home for home in homes if home.is_dir()]


def _home_of(nvcc: str) -> Path | None:
    """Return the CUDA_HOME of an nvcc on the PATH, which may be a link or a wrapper script.

    `nvcc --dryrun` prints CUDA_HOME as TOP. Debian's nvcc prints no TOP, only the folder of the
    program.
    """
    command = [nvcc, "--dryrun", "-E", "-x", "cu", os.devnull]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    found = re.search(r"^#\$ TOP=(.+)$", output, re.MULTILINE)
    if found:
        return Path(found[1]).resolve()
    here = re.search(r"^#\$ _HERE_=(.+)$", output, re.MULTILINE)
    return Path(here[1]).resolve().parent if here else None


def nvcc_version(home: Path) -> str | None:
    """Return the release of `home`'s nvcc, such as `13.0.88`, or None if it does not run."""
    try:
        output = subprocess.run(
            [home / "bin" / "nvcc", "--version"], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return None
    found = re.search(r"\bV(\d+\.\d+\.\d+)", output)
    return found[1] if found else None
