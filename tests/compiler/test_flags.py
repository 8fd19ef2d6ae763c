"""Compiler flags: the architecture that a submission asks for, and how torch splits flags."""

from __future__ import annotations

import subprocess
from inspect import signature
from pathlib import Path
from typing import Any

import ninja
import pytest
from torch.utils import cpp_extension

from harness.compiler.extension import ExtensionLoader
from harness.compiler.flags import (
    Extension,
    Target,
    cpp_command,
    cuda_command,
    link_command,
    torch_language_standard,
)
from harness.compiler.toolchain import find_toolchain
from harness.evaluate import Request, evaluate
from harness.system.device import Device
from tests.support import REFERENCE

NINJA = Path(ninja.BIN_DIR) / "ninja"

# This compiles only for Hopper with its architecture-specific features, which wgmma needs.
SUBMISSION = '''
import os
from torch import nn
from torch.utils.cpp_extension import load_inline

{before}
load_inline(
    name="architecture",
    cpp_sources="",
    cuda_sources="""
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error not compiled for 90a
#endif
__global__ void nothing() {{}}
""",
    extra_cuda_cflags={flags},
    no_implicit_headers=True,
    is_python_module=False,
)

class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
'''


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("before", "flags"),
    [
        ("", ["-gencode", "arch=compute_90a,code=sm_90a"]),
        ("os.environ['TORCH_CUDA_ARCH_LIST'] = '8.0;9.0a'", []),
    ],
)
def test_submission_is_compiled_for_what_it_asks(
    tmp_path: Path, before: str, flags: list[str]
) -> None:
    """A submission may name an architecture in flags of nvcc or in TORCH_CUDA_ARCH_LIST."""
    path = tmp_path / "architecture.py"
    path.write_text(SUBMISSION.format(before=before, flags=flags))
    # Without cases, the evaluation only imports the submission.
    problem = REFERENCE / "conv_transpose1d.py"
    report = evaluate(Request(path, problem, "simulator"))
    assert (report.verdict, report.detail) == ("not run", "")
    assert [build.name for build in report.builds] == ["architecture"]


@pytest.mark.parametrize(
    ("flags", "device", "expected"),
    [
        (("-O3",), "simulator", ["arch=compute_90,code=compute_90"]),
        (("-O3",), "cuda", ["arch=compute_90,code=sm_90"]),
        (("-arch=sm_80",), "simulator", ["arch=compute_80,code=compute_80"]),
        (("-gencode=arch=compute_90a,code=sm_90a",), "cuda", ["arch=compute_90a,code=sm_90a"]),
        # Machine code for sm_90 is made from the PTX of compute_75, whose __CUDA_ARCH__ is 750.
        (
            ("-arch=compute_75", "-code=sm_90,compute_90"),
            "simulator",
            ["arch=compute_75,code=compute_75"],
        ),
        (
            ("--generate-code", "arch=compute_70,code=[compute_70,sm_90]"),
            "simulator",
            ["arch=compute_70,code=compute_70"],
        ),
        (("-arch", "compute_89"), "simulator", ["arch=compute_89,code=compute_89"]),
        (("-arch=native",), "simulator", ["arch=compute_90,code=compute_90"]),
        (
            ("-gencode=arch=compute_100a,code=sm_100a",),
            "simulator",
            ["arch=compute_100a,code=compute_100a"],
        ),
        # A device of architecture 90 gets the newest of the architectures that it can run.
        (
            (
                "-gencode=arch=compute_80,code=sm_80",
                "-gencode=arch=compute_90a,code=sm_90a",
                "-gencode=arch=compute_100a,code=sm_100a",
            ),
            "simulator",
            ["arch=compute_90a,code=compute_90a"],
        ),
    ],
)
def test_architecture_flags(flags: tuple[str, ...], device: Device, expected: list[str]) -> None:
    """A GPU's build has the submission's -gencode flags; the simulator's has one architecture."""
    extension = Extension("x", (("x.cu", ""),), cuda_flags=flags)
    command = cuda_command(extension, find_toolchain(), Target(device), "x.cu", headers="light")
    assert [
        word.removeprefix("-gencode=") for word in command if word.startswith("-gencode=")
    ] == expected


ODD_FLAGS = {
    "none": [],
    "empty": [""],
    "blanks": ["  ", "\t", " -O2 "],
    "several in one": ["-O3 -DA=1", "-DB=2"],
    "option and value": ["-D", "A=1"],
    "value with a space": ["-DA='b c'"],
    "value in quotes": [r"-DA=\"b\"", r'-DB="\"c d\""'],
    "space without quotes": ["-DA=b c"],
    "twice": ["-DA=1", "-DA=1"],
    "path": ["-I/some/where", "-I /else/where", "-I'/with a/space'"],
    "unknown to ninja": ["-DA=$b", "-DC=${d}e"],
    "dollars": ["-DA=$$HOME", "-DB='$$ORIGIN'", "-DC=x$:y$ z"],
    "standard": ["-std=c++17"],
    "standard after another": ["-O2 -std=c++20"],
    "comma": ["-Wl,-rpath,/some/where", "-Wl,--no-as-needed"],
    "parentheses": ["-DA(x)=x", "'-DB(x)=(x)'"],
    "libraries": ["-lm", "-L/some/where", "-ldl"],
}


def words_of_torch(
    flags: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, list[str]]:
    """Return, by output file, the arguments that compilers get from the build file of torch."""
    recorder = folder / "recorder"
    recorder.write_text(
        '#!/bin/sh\nfor word; do [ "$before" = -o ] && out=$word; before=$word; done\n'
        'printf \'%s\\0\' "$@" >"$out"\n'
    )
    recorder.chmod(0o755)
    for name in ("main.cpp", "cuda.cu"):
        (folder / name).touch()
    for name in ("CXX", "PYTORCH_NVCC"):
        monkeypatch.setenv(name, str(recorder))
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", str(find_toolchain().cuda.home))
    torch_itself: Any = cpp_extension
    # torch 2.9 has one switch fewer. All switches after the first are off.
    switches = len(signature(torch_itself._prepare_ldflags).parameters) - 2
    linked = torch_itself._prepare_ldflags(list(flags), True, *[False] * switches)
    torch_itself._write_ninja_file_to_build_library(
        "build.ninja", "x", ["main.cpp", "cuda.cu"], flags, flags, [], linked, [],
        True, False, False,
    )  # fmt: skip
    if subprocess.run([NINJA, "-k0"], check=False).returncode:
        return {}
    return {
        name: Path(name).read_text().split("\0")[:-1] for name in ("main.o", "cuda.cuda.o", "x.so")
    }


def own_words(
    flags: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, list[str]]:
    """Return, by output file, the arguments that the harness gives to compilers for a GPU."""
    torch_itself: Any = cpp_extension
    asked: list[Extension] = []

    class NothingBuilt(Exception):
        pass

    def build(extension: Extension) -> bytes:
        asked.append(extension)
        raise NothingBuilt

    submission = folder / "submission.py"
    submission.touch()
    for name in (
        "_jit_compile", "_get_build_directory",
        "_check_and_build_extension_h_precompiler_headers",
        "remove_extension_h_precompiler_headers",
    ):  # fmt: skip
        # monkeypatch restores these at the end; the loader replaces them.
        monkeypatch.setattr(cpp_extension, name, getattr(cpp_extension, name))
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST")
    monkeypatch.delenv("CXX")
    ExtensionLoader(submission, build).install()
    with pytest.raises((NothingBuilt, ValueError)):
        torch_itself.load_inline(
            "x", [""], [""],
            extra_cflags=flags, extra_cuda_cflags=flags, extra_ldflags=flags,
        )  # fmt: skip
    if not asked:
        return {}
    toolchain, target = find_toolchain(), Target("cuda")
    return {
        "main.o": list(cpp_command(asked[0], toolchain, target, "main.cpp", headers="full")),
        "cuda.cuda.o": list(cuda_command(asked[0], toolchain, target, "cuda.cu", headers="full")),
        "x.so": list(link_command(asked[0], toolchain, target, ["main.o"], "x.so")),
    }


def between(words: list[str], first: str, last: str) -> list[str]:
    """Return the arguments between the first `first` and the next `last`.

    Arguments with `-gencode=`, which name an architecture, are left out: torch puts them elsewhere.
    """
    start = words.index(first) + 1
    found = words[start : words.index(last, start)]
    return [word for word in found if not word.startswith("-gencode=")]


@pytest.mark.parametrize("flags", ODD_FLAGS.values(), ids=ODD_FLAGS)
def test_flags_become_what_torch_makes_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    """Compilers and linker get the same arguments from the harness as from torch's build file.

    ninja and a shell split the flags in torch's build file into words.
    """
    theirs = words_of_torch(flags, tmp_path, monkeypatch)
    ours = own_words(flags, tmp_path, monkeypatch)
    assert theirs.keys() == ours.keys()
    for name, first, last in (
        ("main.o", torch_language_standard(), "-c"),
        ("cuda.cuda.o", "-fPIC", "-c"),
        ("x.so", "-shared", f"-L{cpp_extension.TORCH_LIB_PATH}"),
    ):
        if theirs:
            # torch does not quote the path to itself, which may contain spaces.
            theirs_last = last.partition(" ")[0]
            expected = between(theirs[name], first, theirs_last)
            assert between(ours[name], first, last) == expected, name
