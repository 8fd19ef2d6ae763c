"""Builds of submissions' extensions with the real compilers, and the reuse of earlier builds."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch.utils import cpp_extension

from harness.compiler import flags
from harness.compiler.builder import Builder
from harness.compiler.cache import Cache, default_root
from harness.compiler.compiler import Compiler, CompileTimeout
from harness.compiler.flags import Extension, Target
from harness.compiler.ninja import CompileError
from harness.compiler.toolchain import find_toolchain
from harness.sandbox import bubblewrap
from harness.sandbox.confined import places

# The sources are small and lack torch's headers, because these tests are not about compile times.
CALLER = "int answer();\nint asked() { return answer(); }\n"
# load_inline adds this flag too: torch's headers refuse an older standard.
STANDARD = (flags.torch_language_standard(),)


def builder(folder: Path, *readable: Path, run: str = "", seconds: float = 900.0) -> Builder:
    toolchain = find_toolchain()
    compiler = Compiler(toolchain, readable, seconds=seconds)
    return Builder(toolchain, Cache(folder), Target("simulator"), compiler, run)


def extension(code: str, **fields: Any) -> Extension:
    return Extension("small", (("main.cpp", CALLER), ("code.cpp", code)), **fields)


def test_flags_reach_the_compiler_and_the_key(tmp_path: Path) -> None:
    """A compiler gets a submission's flags, and the same code with other flags is built anew."""
    code = "int answer() { return ANSWER; }"
    with pytest.raises(CompileError, match="ANSWER"):
        builder(tmp_path).build(extension(code))
    built = builder(tmp_path).build(extension(code, cpp_flags=("-DANSWER=42",)))
    other = builder(tmp_path).build(extension(code, cpp_flags=("-DANSWER=43",)))
    again = builder(tmp_path).build(extension(code, cpp_flags=("-DANSWER=42",)))
    assert built.library != other.library
    assert again.reused
    assert again.library == built.library


@pytest.mark.thorough
def test_header_that_may_be_there_is_watched(tmp_path: Path) -> None:
    """A build is not reused if `__has_include` in its source would now find a header.

    While the compilers cannot see the new header, the build is reused.
    """
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


def test_another_environment_finds_what_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torch of the same version in another folder reuses earlier builds."""
    asked = extension("int answer() { return 1; }")
    built = builder(tmp_path).build(asked)
    elsewhere = tmp_path / "environment" / "torch"
    elsewhere.parent.mkdir()
    elsewhere.symlink_to(Path(cpp_extension.TORCH_LIB_PATH).parent)
    monkeypatch.setattr(cpp_extension, "_TORCH_PATH", str(elsewhere))
    monkeypatch.setattr(cpp_extension, "TORCH_LIB_PATH", str(elsewhere / "lib"))
    again = builder(tmp_path).build(asked)
    link = flags.link_command(asked, find_toolchain(), Target("simulator"), (), "module.so")
    assert f"-L{elsewhere}/lib" in link
    assert again.reused
    assert again.library == built.library


def test_own_header_is_watched(tmp_path: Path) -> None:
    """After a change of a submission's header, the extension is built again."""
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


@pytest.mark.thorough
def test_readable_file_is_watched_however_it_is_read(tmp_path: Path) -> None:
    """A change of a `--readable` file that only an assembler includes makes a new build.

    Compilers do not list such a file as a dependency.
    """
    (tmp_path / "readable").mkdir()
    data = tmp_path / "readable" / "table.bin"
    code = (
        f'asm(".section .rodata\\ntable: .incb" "in \\"{data}\\"\\n.byte 0\\n.text");\n'
        "int answer() { return 1; }"
    )
    held = []
    for content in (b"first", b"other"):
        data.write_bytes(content)
        built = builder(tmp_path / "cache", data.parent).build(extension(code))
        held.append([word in built.library.read_bytes() for word in (b"first", b"other")])
    assert held == [[True, False], [False, True]]


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["absolute", "folder", "option", "question"])
def test_any_file_is_watched_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Without a sandbox, a change of any header that the compilers read makes a new build."""
    monkeypatch.setattr(bubblewrap, "usable", lambda: None)
    header = tmp_path / "value.h"
    header.write_text("#define VALUE 1\n")
    other = tmp_path / "other.h"
    end = "\nint answer() { return VALUE; }"
    asked = {
        "absolute": extension(f'#include "{header}"{end}'),
        "folder": extension(f'#include "value.h"{end}', include_paths=(str(tmp_path),)),
        "option": extension(end, cpp_flags=("-include", str(header))),
        "question": extension(
            f'#if __has_include("other.h")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif{end}',
            include_paths=(str(tmp_path),),
        ),
    }[how]
    cache = tmp_path / "cache"
    builder(cache, run="first").build(asked)
    assert builder(cache, run="first").build(asked).reused
    header.write_text("#define VALUE 2\n")
    other.write_text("")
    assert not builder(cache, run="second").build(asked).reused


def test_commands_that_make_nothing_are_said_to(tmp_path: Path) -> None:
    """Linker options with which the linker makes no library give a compile error of one line."""
    with pytest.raises(CompileError) as error:
        builder(tmp_path).build(extension("int answer() { return 1; }", link_flags=("--version",)))
    assert error.value.output == "error: the build commands succeeded but created no module.so"


@pytest.mark.thorough
def test_precompiled_header_that_failed_is_tried_again(tmp_path: Path) -> None:
    """If a submission's deadline ends the build of a precompiled header, nothing is stored.

    So the next submission, which has a deadline of its own, builds the header again.
    """
    asked = Extension("small", (("main.cpp", "#include <torch/extension.h>\n"),))
    with pytest.raises(CompileTimeout):
        builder(tmp_path, seconds=0.1).build(asked)
    assert not list(tmp_path.glob("*/prelude.h"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ('asm(".section .rodata\\n.incbin \\"main.cpp\\"\\n.text");', {}),
        ('#if __has_include("/nowhere/at/all.h")\n#endif\n', {}),
        ('#if 0\n#embed "main.cpp"\n#endif\n', {}),
        ("#ifdef __has_embed\n#endif\n", {}),
        ("", {"cpp_flags": ("@/dev/null",)}),
        ("", {"cuda_flags": ("--options-file=/dev/null",)}),
        ("", {"link_flags": ("-L.",)}),
        ("", {"link_flags": ("-l:libm.so.6",)}),
        ("", {"link_flags": ("-Wl,-z,now", "-Wl,-rpath,/nowhere")}),
    ],
)
def test_what_reads_unseen_files_is_built_in_every_run(
    tmp_path: Path, code: str, fields: dict[str, Any]
) -> None:
    """A build that may read files that the harness does not see is reused in the same run only.

    The harness cannot tell whether these files have changed.
    """
    asked = extension(f"{code}\nint answer() {{ return 1; }}", **fields)
    builder(tmp_path, run="first").build(asked)
    assert builder(tmp_path, run="first").build(asked).reused
    assert not builder(tmp_path, run="second").build(asked).reused


@pytest.mark.thorough
@pytest.mark.parametrize("flag", ["-Tmain.cpp", "-Wl,--version-script,main.cpp", "main.cpp.o"])
def test_refusal_of_what_reads_unseen_files_is_one_runs(tmp_path: Path, flag: str) -> None:
    """A compile error is reused in its own run only, if files unknown to the harness may cause it.

    Examples of such files are linker scripts and object files.
    """
    begun: list[str] = []
    asked = extension("int answer() { return 1; }", link_flags=(flag,))
    for run in ("first", "first", "second"):
        with pytest.raises(CompileError):
            builder(tmp_path, run=run).build(asked, partial(begun.append, run))
    assert begun == ["first", "second"]


def test_without_a_run_what_reads_unseen_files_is_always_built(tmp_path: Path) -> None:
    """A build that may read files unknown to the harness is never reused outside a run.

    Nothing then bounds the time in which these files must stay the same.
    """
    asked = extension("int answer() { return 1; }", link_flags=("-L.",))
    assert [builder(tmp_path).build(asked).reused for _ in range(2)] == [False, False]


@pytest.mark.thorough
def test_build_without_a_sandbox_is_nothing_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build made without a sandbox is not reused by a build in a sandbox.

    Compilers without a sandbox could read every file of the machine.
    """
    asked = extension("int answer() { return 1; }")
    with monkeypatch.context() as patched:
        patched.setattr(bubblewrap, "usable", lambda: None)
        builder(tmp_path).build(asked)
    assert not builder(tmp_path).build(asked).reused


@pytest.mark.thorough
def test_sources_beside_a_submission_are_watched(tmp_path: Path) -> None:
    """A change of a source file beside a submission makes a new build.

    This holds although `--readable` does not list the file, and although compilers in a sandbox see
    it in another folder.
    """
    submission, header = tmp_path / "mine.py", tmp_path / "value.h"
    submission.write_text("# builds with value.h")
    header.write_text("#define VALUE 1\n")
    placed = places(submission)
    del placed[submission]
    asked = extension(
        '#include "value.h"\nint answer() { return VALUE; }',
        include_paths=(str(placed[header].parent),),
    )
    toolchain = find_toolchain()

    def reused() -> bool:
        compiler = Compiler(toolchain, (), placed)
        cache = Cache(tmp_path / "cache")
        return Builder(toolchain, cache, Target("simulator"), compiler).build(asked).reused

    assert [reused(), reused()] == [False, True]
    header.write_text("#define VALUE 2\n")
    assert not reused()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["value.py", "large.bin"])
def test_readable_file_without_a_digest_is_watched_too(tmp_path: Path, name: str) -> None:
    """A changed `--readable` file causes a new build, even if the file is large or Python."""
    readable = tmp_path / "readable"
    readable.mkdir()
    (readable / "value.py").write_text("#define VALUE 1\n")
    with (readable / "large.bin").open("wb") as file:
        file.truncate(17 << 20)
    asked = extension(
        '#include "value.py"\nint answer() { return VALUE; }', include_paths=(str(readable),)
    )
    cache = tmp_path / "cache"
    builder(cache, readable).build(asked)
    assert builder(cache, readable).build(asked).reused
    with (readable / name).open("r+b") as file:
        file.write(b"#define VALUE 2\n")
    assert not builder(cache, readable).build(asked).reused


@pytest.mark.thorough
def test_full_headers_are_the_fallback(tmp_path: Path) -> None:
    """A source that needs more than the harness's light headers is built with torch's full ones."""
    # This includes one small header, because g++ takes half a minute for all of them.
    code = "#include <ATen/Context.h>\nint answer() { return at::hasMKL(); }\n"
    assert builder(tmp_path).build(extension(code)).notes["headers"] == "full"


@pytest.mark.thorough
def test_operators_that_are_called_need_no_full_headers() -> None:
    """Calls of torch::softmax and at::conv2d compile with the harness's light headers."""
    code = (
        "#include <torch/extension.h>\n"
        "at::Tensor both(at::Tensor x) { return at::conv2d(torch::softmax(x, 1), x); }\n"
        "int answer() { return 1; }\n"
    )
    assert builder(default_root()).build(extension(code)).notes["headers"] == "light"


@pytest.mark.thorough
def test_lists_of_tensors_need_no_full_headers() -> None:
    """A call of torch::cat, which takes a list, compiles with the harness's light headers."""
    code = (
        "#include <torch/extension.h>\n"
        "at::Tensor twice(at::Tensor x) { return torch::cat({x, x}, 0); }\n"
        "int answer() { return 1; }\n"
    )
    assert builder(default_root()).build(extension(code)).notes["headers"] == "light"


@pytest.mark.thorough
def test_bindings_headers_are_read_once(tmp_path: Path) -> None:
    """A second extension uses the precompiled header that was made for the first one.

    Rare options get no precompiled header.
    """
    include = "#include <torch/extension.h>\n"
    is_begun = "#ifndef AT_DISPATCH_SWITCH\n#error nothing stands before this\n#endif\n"

    def build(name: str, text: str, *flags: str) -> str:
        asked = Extension(name, (("main.cpp", text),), cpp_flags=flags, with_cuda=False)
        return builder(tmp_path).build(asked).notes["headers"]

    assert build("first", is_begun + include) == "light"
    (precompiled,) = tmp_path.rglob("prelude.h.gch")
    precompiled.with_name("prelude.h").write_text("#error not precompiled\n")
    assert build("second", is_begun + include) == "light"
    # No header is precompiled for rare options.
    assert build("third", include, "-DANSWER=1") == "light"
    assert list(tmp_path.rglob("prelude.h.gch")) == [precompiled]


@pytest.mark.thorough
def test_complex_numbers_of_the_toolkit_are_whole() -> None:
    """A kernel that computes with thrust's complex numbers compiles with the light headers."""
    code = (
        "#include <torch/extension.h>\n#include <thrust/complex.h>\n"
        "__global__ void kernel(thrust::complex<float> *x) { *x = thrust::exp(*x) * *x; }\n"
        "int answer() { kernel<<<1, 1>>>(nullptr); return 0; }\n"
    )
    asked = Extension("small", (("main.cpp", CALLER), ("code.cu", code)), cuda_flags=STANDARD)
    assert builder(default_root()).build(asked).notes["headers"] == "light"


@pytest.mark.thorough
def test_headers_of_everything_are_light_too() -> None:
    """A source that includes all of ATen and torch compiles with the harness's light headers."""
    code = (
        "#include <ATen/ATen.h>\n#include <torch/all.h>\n#include <torch/torch.h>\n"
        "#include <torch/extension.h>\n#include <c10/core/Allocator.h>\n"
        "at::Tensor scaled(at::Tensor x, c10::optional<at::Tensor> by) {\n"
        "    return by.has_value() ? torch::mul(x, by.value()) : x;\n"
        "}\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scaled", &scaled); }\n'
    )
    asked = Extension("small", (("code.cu", code),), cuda_flags=STANDARD)
    assert builder(default_root()).build(asked).notes["headers"] == "light"


@pytest.mark.thorough
def test_architecture_of_the_submission_is_respected(tmp_path: Path) -> None:
    """A submission's -arch and -gencode options choose the architecture of the PTX."""
    code = (
        "__global__ void kernel(int *out) { *out = 1; }\n"
        "int answer() { kernel<<<1, 1>>>(nullptr); return 0; }\n"
    )
    for options in (("-arch=sm_80",), ("-gencode", "arch=compute_80,code=[sm_80,compute_80]")):
        asked = Extension("small", (("main.cpp", CALLER), ("code.cu", code)), cuda_flags=options)
        library = builder(tmp_path).build(asked).library
        assert b".target sm_80" in library.read_bytes()


def test_code_for_older_devices_alone_is_refused(tmp_path: Path) -> None:
    """Machine code of another major version does not build, as no kernel of it could be launched.

    On a GPU, the launch fails with cudaErrorNoKernelImageForDevice.
    """
    flags = ("-gencode=arch=compute_75,code=sm_75", "-gencode=arch=compute_80,code=sm_86")
    asked = Extension("small", (("main.cpp", CALLER),), cuda_flags=flags)
    with pytest.raises(CompileError, match="build sm_75, sm_86 alone, and it is sm_90"):
        builder(tmp_path).build(asked)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "kept"), [("int answer() { return wrong; }", 1), ("#include <absent.h>\n", 0)]
)
def test_refusal_is_kept_unless_something_may_be_installed(
    tmp_path: Path, code: str, kept: int
) -> None:
    """A compile error is stored, except for a missing header, which may be installed later."""
    for _ in range(2):
        with pytest.raises(CompileError, match=r"wrong|absent"):
            builder(tmp_path).build(extension(code))
    assert len(list(tmp_path.glob("*/refusal.txt"))) == kept


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "flags", "message"),
    [
        (
            "int answer() { return 1; }",
            ("-O2", "-lnowhere"),
            "link error: cannot find -lnowhere: No such file or directory "
            "(from extra_ldflags: '-lnowhere')",
        ),
        (
            "int answer() { return 1; }",
            ("-Wl,--nonsense",),
            "link error: unrecognized option '--nonsense' (from extra_ldflags: '-Wl,--nonsense')",
        ),
        (
            "int missing(); int answer() { return missing(); }",
            ("-Wl,-z,defs",),
            "link error: code.cpp:(.text+0x5): undefined reference to `missing()'",
        ),
    ],
)
def test_linker_is_quoted(tmp_path: Path, code: str, flags: tuple[str, ...], message: str) -> None:
    """The first line of a link error quotes the linker, and the flag that caused the error."""
    with pytest.raises(CompileError) as caught:
        builder(tmp_path).build(extension(code, link_flags=flags))
    # The place in the code depends on what the distribution's compiler adds to it.
    assert re.sub(r"0x\w+", "0x5", str(caught.value)) == message
    assert "collect2: error: ld returned 1 exit status" in caught.value.output


@pytest.mark.thorough
def test_one_run_waits_for_one_failure(tmp_path: Path) -> None:
    """If a build lacks a header or misses its deadline, the same run does not try it again.

    The stored failure is raised. Another run builds again.
    """
    absent = extension("#include <absent.h>\n")
    with pytest.raises(CompileError, match="absent"):
        builder(tmp_path, run="first").build(absent)
    late = extension("int answer() { return 1; }")
    with pytest.raises(CompileTimeout):
        builder(tmp_path, run="first", seconds=0.01).build(late)

    with pytest.raises(CompileError, match="absent"):
        # The second attempt has no time to compile, so this is the stored failure.
        builder(tmp_path, run="first", seconds=0.01).build(absent)
    with pytest.raises(CompileTimeout):
        builder(tmp_path, run="first").build(late)
    assert not builder(tmp_path, run="second").build(late).reused
