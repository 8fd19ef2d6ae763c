"""A comparison of the harness's `load_inline` and `load` with torch's, over all parameters."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from torch.utils import cpp_extension
from torch.utils._cpp_extension_versioner import ExtensionVersioner

from harness.compiler.extension import ExtensionLoader, as_torch_passes
from harness.compiler.flags import Extension, torch_language_standard

torch_itself: Any = cpp_extension
Options = dict[str, Any]
Request = dict[str, object]
Loaded = tuple[str, bool]
"""The name of the library's file, and whether it is imported as a Python module."""

ADDED = "int twice(int x) { return 2 * x; }"
KERNEL = "__global__ void nothing() {}"
INLINE: Options = {"name": "x", "cpp_sources": ADDED, "functions": ["twice"]}
FROM_FILES: Options = {"name": "x", "sources": ["one.cpp"]}

OF_LOAD_INLINE: dict[str, Sequence[Options]] = {
    "name": [{"name": "another"}],
    "cpp_sources": [{"cpp_sources": [ADDED, "// more"]}, {"cpp_sources": "", "functions": None}],
    "cuda_sources": [{"cuda_sources": KERNEL}, {"cuda_sources": [KERNEL, "// more"]}],
    "sycl_sources": [{"sycl_sources": ""}],
    "functions": [{"functions": "twice"}, {"functions": {"twice": "doubles"}}, {"functions": 1}],
    "extra_cflags": [{"extra_cflags": ["-O3", " -DA=1 "]}],
    "extra_cuda_cflags": [{"cuda_sources": KERNEL, "extra_cuda_cflags": ["-O3", "-DA=1"]}],
    "extra_sycl_cflags": [{"extra_sycl_cflags": ["-O3"]}],
    "extra_ldflags": [{"extra_ldflags": ["-lm"]}],
    "extra_include_paths": [{"extra_include_paths": ["headers", "/some/where "]}],
    "build_directory": [
        {"build_directory": "made"},
        {"build_directory": Path("made"), "cuda_sources": KERNEL},
        {"build_directory": "missing"},
    ],
    "verbose": [{"verbose": True}],
    "with_cuda": [{"with_cuda": True}, {"with_cuda": False}],
    "with_sycl": [{"with_sycl": False}],
    "is_python_module": [{"is_python_module": False}],
    "with_pytorch_error_handling": [{"with_pytorch_error_handling": False}],
    "keep_intermediates": [{"keep_intermediates": False}],
    "use_pch": [{"use_pch": True}],
    "no_implicit_headers": [{"no_implicit_headers": True, "cuda_sources": KERNEL}],
}
OF_LOAD: dict[str, Sequence[Options]] = {
    **{name: rows for name, rows in OF_LOAD_INLINE.items() if name.startswith(("extra", "with_s"))},
    "name": [{"name": "another"}],
    "sources": [{"sources": "one.cpp"}, {"sources": ["one.cpp", "two.cu"]}],
    "build_directory": [{"build_directory": "made"}],
    "extra_cuda_cflags": [{"sources": ["two.cu"], "extra_cuda_cflags": ["-O3", "-DA=1"]}],
    "verbose": [{"verbose": True}],
    "with_cuda": [{"with_cuda": True}, {"with_cuda": False}],
    "is_python_module": [{"is_python_module": False}],
    "is_standalone": [{"is_standalone": True}],
    "keep_intermediates": [{"keep_intermediates": False}],
}
CALLS = [
    *(("load_inline", {**INLINE, **row}) for rows in OF_LOAD_INLINE.values() for row in rows),
    *(("load", {**FROM_FILES, **row}) for rows in OF_LOAD.values() for row in rows),
]
REFUSED_HERE = [
    ("load_inline", {**INLINE, "sycl_sources": KERNEL}, "SYCL needs Intel's compiler"),
    ("load_inline", {**INLINE, "with_sycl": True}, "SYCL needs Intel's compiler"),
    ("load_inline", {**INLINE, "cuda_sources": KERNEL, "with_cuda": False}, "with_cuda=False"),
    ("load", {**FROM_FILES, "sources": ["two.cu"], "with_cuda": False}, "with_cuda=False"),
    (
        "load",
        {**FROM_FILES, "is_python_module": False, "is_standalone": True},
        "is_standalone=True builds a program",
    ),
]


class Way:
    """torch's or the harness's `load` and `load_inline`; builds and imports are only recorded.

    Attributes:
        folder: The current folder, in which the source files are.
        built: The requests that would have reached the compilers.
    """

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.built: list[Request] = []
        folder.mkdir()
        (folder / "made").mkdir()
        (folder / "one.cpp").write_text(ADDED)
        (folder / "two.cu").write_text(KERNEL)
        (folder / "submission.py").touch()
        patch.chdir(folder)
        patch.setenv("TORCH_EXTENSIONS_DIR", str(folder / "extensions"))
        patch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
        for name in (
            "_jit_compile", "_get_build_directory",
            "_check_and_build_extension_h_precompiler_headers",
            "remove_extension_h_precompiler_headers",
        ):  # fmt: skip
            # monkeypatch restores these at the end; the loader replaces them.
            patch.setattr(torch_itself, name, getattr(torch_itself, name))
        patch.setattr(torch_itself, "_import_module_from_library", self.loaded)

    def loaded(self, name: str, folder: str, is_python_module: bool) -> Loaded:
        """Return the name of the library to import, and whether it is a Python module."""
        library = Path(folder) / f"{name}{torch_itself.LIB_EXT}"
        return library.name, is_python_module

    def call(self, function: str, options: Options) -> object:
        """Return what a call of `function` returns or raises; leave the options unchanged."""
        own = {n: list(v) if isinstance(v, list) else v for n, v in options.items()}
        try:
            return getattr(torch_itself, function)(**own)
        except OSError as error:
            return type(error)
        except Exception as error:
            return type(error), str(error)


def torch_way(patch: pytest.MonkeyPatch, folder: Path) -> Way:
    """Return torch's implementation, which records a build in place of the call of ninja."""
    way = Way(patch, folder)

    def build(**asked: Any) -> None:
        way.built.append(
            {
                "name": asked["name"],
                "sources": [(Path(s).name, plain(Path(s).read_text())) for s in asked["sources"]],
                "cpp_flags": as_torch_passes(asked["extra_cflags"]),
                "cuda_flags": as_torch_passes(asked["extra_cuda_cflags"]),
                "link_flags": as_torch_passes(asked["extra_ldflags"]),
                "headers": [str(Path(p.strip()).absolute()) for p in asked["extra_include_paths"]],
                "with_cuda": asked["with_cuda"],
            }
        )

    patch.setattr(torch_itself, "JIT_EXTENSION_VERSIONER", ExtensionVersioner())
    patch.setattr(torch_itself, "_write_ninja_file_and_build_library", build)
    for name in (
        "_check_and_build_extension_h_precompiler_headers",
        "remove_extension_h_precompiler_headers",
    ):
        patch.setattr(torch_itself, name, lambda *_: None)
    return way


def own_way(patch: pytest.MonkeyPatch, folder: Path) -> Way:
    """Return the harness's implementation, which records a build in place of requesting it."""
    way = Way(patch, folder)

    def build(asked: Extension) -> bytes:
        way.built.append(
            {
                "name": asked.name,
                "sources": [
                    (name.replace(".1.", "."), plain(text)) for name, text in asked.sources
                ],
                "cpp_flags": asked.cpp_flags,
                "cuda_flags": tuple(f for f in asked.cuda_flags if f != torch_language_standard()),
                "link_flags": asked.link_flags,
                # torch compiles a source in its own folder; the harness names that folder.
                "headers": [path for path in asked.include_paths if path != str(folder)],
                "with_cuda": asked.with_cuda,
            }
        )
        return b"library"

    ExtensionLoader(folder / "submission.py", build).install()
    return way


def plain(text: str) -> str:
    """Return a source without #line directives, and without empty lines at the end."""
    kept = (line for line in text.splitlines() if not line.startswith("#line"))
    return "\n".join(kept).rstrip()


def both(tmp_path: Path, calls: Sequence[tuple[str, Options]]) -> list[tuple[list[Any], str]]:
    """Make a sequence of calls with torch's loader and with the harness's; return both results.

    Each result has the values that the calls return, and a text of these values and all builds.
    """
    done = []
    for name, make in (("torch", torch_way), ("harness", own_way)):
        with pytest.MonkeyPatch.context() as patch:
            way = make(patch, tmp_path / name)
            returned = [way.call(*call) for call in calls]
        done.append((returned, str((returned, way.built)).replace(str(way.folder), "FOLDER")))
    return done


@pytest.mark.parametrize(("function", "options"), CALLS, ids=lambda value: str(value)[:80])
def test_option_means_what_torch_makes_of_it(
    tmp_path: Path, function: str, options: Options
) -> None:
    """The harness's loader returns and builds the same as torch's, or raises the same error."""
    theirs, ours = both(tmp_path, [(function, options)])
    assert ours == theirs


@pytest.mark.parametrize(("function", "rows"), [("load_inline", OF_LOAD_INLINE), ("load", OF_LOAD)])
def test_every_option_is_compared(function: str, rows: dict[str, object]) -> None:
    """The table of compared options has each parameter of torch's functions."""
    assert set(signature(getattr(torch_itself, function)).parameters) == set(rows)


@pytest.mark.parametrize(("function", "options", "words"), REFUSED_HERE)
def test_what_cannot_be_built_is_refused(
    tmp_path: Path, function: str, options: Options, words: str
) -> None:
    """Options that the harness cannot build raise an error that names the option."""
    _, (returned, _) = both(tmp_path, [(function, options)])
    assert words in str(returned)


def test_another_request_under_one_name_gets_a_name_of_its_own(tmp_path: Path) -> None:
    """If an extension's name is used again with other options, the name changes as torch's does."""
    other = {**INLINE, "cpp_sources": ADDED.replace("2", "3")}
    calls: list[tuple[str, Options]] = [
        ("load_inline", INLINE),
        ("load_inline", INLINE),
        ("load_inline", other),
        ("load_inline", INLINE),
        ("load_inline", {**INLINE, "extra_cflags": ["-O3"]}),
        ("load_inline", {**INLINE, "extra_cflags": ["-O3"], "is_python_module": False}),
        ("load_inline", {**INLINE, "build_directory": "made"}),
        ("load", FROM_FILES),
        ("load_inline", {**INLINE, "name": "another"}),
    ]
    theirs, ours = both(tmp_path, calls)
    assert ours == theirs
    assert [name for name, _ in ours[0]][:4] == ["x.so", "x.so", "x_v1.so", "x_v2.so"]
