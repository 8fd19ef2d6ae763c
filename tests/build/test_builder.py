"""Building extensions with the real compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.build import flags
from harness.build.builder import Builder
from harness.build.cache import Cache, digest, file_digest
from harness.build.compiler import Compiler
from harness.build.flags import Extension, Target
from harness.build.ninja import CompileError
from harness.build.toolchain import find_toolchain

# Small sources without torch's headers: what is under test is not the compiler's speed.
CALLER = "int answer();\nint asked() { return answer(); }\n"


def builder(folder: Path, *readable: Path) -> Builder:
    toolchain = find_toolchain()
    return Builder(toolchain, Cache(folder), Target("simulator"), Compiler(toolchain, readable))


def extension(
    code: str, cpp_flags: tuple[str, ...] = (), include_paths: tuple[str, ...] = ()
) -> Extension:
    sources = (("main.cpp", CALLER), ("code.cpp", code))
    return Extension("small", sources, cpp_flags=cpp_flags, include_paths=include_paths)


def test_flags_reach_the_compiler_and_the_key(tmp_path: Path) -> None:
    """Another flag is another build, and its code sees it."""
    code = "int answer() { return ANSWER; }"
    with pytest.raises(CompileError, match="ANSWER"):
        builder(tmp_path).build(extension(code))
    built = builder(tmp_path).build(extension(code, cpp_flags=("-DANSWER=42",)))
    other = builder(tmp_path).build(extension(code, cpp_flags=("-DANSWER=43",)))
    again = builder(tmp_path).build(extension(code, cpp_flags=("-DANSWER=42",)))
    assert built.library != other.library
    assert again.reused
    assert again.library == built.library


def test_header_that_may_be_there_is_watched(tmp_path: Path) -> None:
    """Who sees a header gets another build than who sees none, whatever was built before."""
    headers = tmp_path / "headers"
    headers.mkdir()
    asked = extension(
        '#if __has_include("value.h")\n#include "value.h"\n#else\n#define VALUE 1\n#endif\n'
        "int answer() { return VALUE; }",
        include_paths=(str(headers),),
    )
    cache = tmp_path / "cache"
    without = builder(cache, headers).build(asked)
    (headers / "value.h").write_text("#define VALUE 2\n")
    (headers / "kernel.py").write_text("ModelNew = None\n")
    unseen = builder(cache, headers / "kernel.py").build(asked)
    seen = builder(cache, headers).build(asked)
    assert unseen.reused
    assert unseen.library == without.library != seen.library


def test_own_header_is_watched(tmp_path: Path) -> None:
    """A changed header of the submission's makes a new build, though no source has changed."""
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "value.h").write_text("#define VALUE 1\n")
    asked = extension(
        '#include "value.h"\nint answer() { return VALUE; }', include_paths=(str(headers),)
    )
    cache = tmp_path / "cache"
    builder(cache, headers).build(asked)
    assert builder(cache, headers).build(asked).reused
    (headers / "value.h").write_text("#define VALUE 2\n")
    assert not builder(cache, headers).build(asked).reused


def test_full_headers_are_the_fallback(cache: pytest.Cache) -> None:
    """What the light headers lack, torch's own have."""
    # A minute's work, kept for as long as nothing in harness/build changes.
    files = sorted(path for path in flags.OVERLAY.parent.rglob("*") if path.suffix in (".py", ".h"))
    folder = cache.mkdir("full-headers") / digest(map(file_digest, files))
    code = (
        "#include <torch/extension.h>\n"
        "int answer() { return torch::nn::LinearOptions(1, 2).bias(); }\n"
    )
    assert builder(folder).build(extension(code)).notes["headers"] == "full"


def test_architecture_of_the_submission_is_respected(tmp_path: Path) -> None:
    """Options that name an architecture choose the PTX, in each of nvcc's spellings."""
    code = (
        "__global__ void kernel(int *out) { *out = 1; }\n"
        "int answer() { kernel<<<1, 1>>>(nullptr); return 0; }\n"
    )
    for options in (("-arch=sm_80",), ("-gencode", "arch=compute_80,code=sm_80")):
        asked = Extension("small", (("main.cpp", CALLER), ("code.cu", code)), cuda_flags=options)
        library = builder(tmp_path).build(asked).library
        assert b".target sm_80" in library.read_bytes()


@pytest.mark.parametrize(
    ("code", "kept"), [("int answer() { return wrong; }", 1), ("#include <absent.h>\n", 0)]
)
def test_refusal_is_kept_unless_something_may_be_installed(
    tmp_path: Path, code: str, kept: int
) -> None:
    """What does not compile is not compiled again, but a missing header may appear."""
    for _ in range(2):
        with pytest.raises(CompileError, match=r"wrong|absent"):
            builder(tmp_path).build(extension(code))
    assert len(list(tmp_path.glob("*/refusal.txt"))) == kept
