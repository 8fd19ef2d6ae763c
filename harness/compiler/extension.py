"""A replacement for the compile step of torch.utils.cpp_extension's `load_inline` and `load`.

torch's functions still check their arguments and assemble the sources. The harness mainly replaces
`_jit_compile`, which compiles and imports. `tried.py` lists the releases of torch that have this
function.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import tempfile
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.utils import cpp_extension

from harness.compiler.flags import Extension, is_cuda_source, torch_language_standard
from harness.compiler.lines import with_line_directives

Build = Callable[[Extension], bytes]
"""A function that returns an extension's shared object, or raises ExtensionBuildError."""

_ASSEMBLED = ("main.cpp", "cuda.cu")
"""The names that load_inline gives to the sources which it assembles, in the build directory."""


class ExtensionBuildError(RuntimeError):
    """An extension of the submission does not compile.

    The message begins like the message of torch's error, because submissions may inspect it.

    Attributes:
        output: Output of the compiler.
    """

    def __init__(self, name: str, output: str) -> None:
        super().__init__(f"Error building extension '{name}': {output}")
        self.output = output


class ExtensionLoader:
    """The loader of the extensions that a submission requests by `load_inline` and `load`.

    The loader calls `build` for each extension, and loads the result as torch does. `path` is the
    submission's file.
    """

    def __init__(self, path: Path, build: Build) -> None:
        self._path = path
        self._build = build
        self._folders: list[tempfile.TemporaryDirectory[str]] = []
        self._lock = threading.RLock()
        self._versions: dict[str, tuple[int, object]] = {}
        self._loaded: dict[tuple[str, int], types.ModuleType | str] = {}

    def install(self) -> None:
        """Replace torch's functions that compile and load an extension, in this process."""
        signature = inspect.signature(cpp_extension._jit_compile)

        def compile_and_load(*args: Any, **kwargs: Any) -> types.ModuleType | str:
            return self._compile_and_load(signature.bind(*args, **kwargs).arguments)

        extension_module: Any = cpp_extension
        extension_module._jit_compile = compile_and_load
        extension_module._get_build_directory = self._fresh_folder
        # torch would write precompiled headers beside its own headers.
        extension_module._check_and_build_extension_h_precompiler_headers = _do_nothing
        extension_module.remove_extension_h_precompiler_headers = _do_nothing

    def _fresh_folder(self, name: str, verbose: bool) -> str:
        """Return a new build directory for a request that names no `build_directory`.

        Each call gets a folder of its own, so that no request sees the files of another.
        """
        del name, verbose
        self._folders.append(tempfile.TemporaryDirectory(prefix="harness-extension-"))
        return self._folders[-1].name

    def _compile_and_load(self, asked: dict[str, Any]) -> types.ModuleType | str:
        """Build and load an extension; return its module, or its path if no module is wanted."""
        _refuse_unsupported(asked)
        extension, folder = self._describe(asked), asked["build_directory"]
        with self._lock:
            version = self._version(extension, asked)
            if (extension.name, version) not in self._loaded:
                # torch's own name for another extension of the same name. pybind11 returns the
                # first module of a name, whatever the file.
                name = f"{extension.name}_v{version}" if version else extension.name
                library = Path(folder) / f"{name}{cpp_extension.LIB_EXT}"
                # load_inline has written sources there. For load, new releases make the folder.
                library.parent.mkdir(parents=True, exist_ok=True)
                _replace_file(library, self._build(replace(extension, name=name)))
                load: Any = cpp_extension._import_module_from_library
                self._loaded[extension.name, version] = load(
                    name, folder, asked["is_python_module"]
                )
            return self._loaded[extension.name, version]

    def _version(self, extension: Extension, asked: dict[str, Any]) -> int:
        """Return the version number of an extension's name, counted as torch counts.

        The number starts at 0. It grows by 1 if a request differs from the last request of the
        same name.
        """
        folder = asked["build_directory"]
        is_fresh = folder in {fresh.name for fresh in self._folders}
        request = (extension, asked["is_python_module"], None if is_fresh else folder)
        version, last = self._versions.get(extension.name, (0, request))
        version += request != last
        self._versions[extension.name] = version, request
        return version

    def _describe(self, asked: dict[str, Any]) -> Extension:
        paths = [Path(path) for path in asked["sources"]]
        with_cuda = asked["with_cuda"]
        if with_cuda is None:
            with_cuda = any(is_cuda_source(path.name) for path in paths)
        assembled = [Path(asked["build_directory"]) / name for name in _ASSEMBLED]
        # A quoted #include is searched first in the folder of the source.
        beside = {str(path.parent.absolute()) for path in paths if path not in assembled}
        texts = [self._text(path, is_assembled=path in assembled) for path in paths]
        return Extension(
            name=asked["name"],
            sources=tuple(
                (_file_name(i, path), text)
                for i, (path, text) in enumerate(zip(paths, texts, strict=True))
            ),
            cpp_flags=as_torch_passes(asked["extra_cflags"] or ()),
            cuda_flags=_cuda_flags(asked["extra_cuda_cflags"] or ()),
            link_flags=as_torch_passes(asked["extra_ldflags"] or ()),
            include_paths=(
                *(
                    str(Path(path.strip()).absolute())
                    for path in asked["extra_include_paths"] or ()
                ),
                *sorted(beside),
            ),
            with_cuda=with_cuda,
        )

    def _text(self, path: Path, *, is_assembled: bool) -> str:
        text = path.read_text()
        if is_assembled:
            return with_line_directives(text, self._path.read_text(), self._path.name)
        return f'#line 1 "{path.name}"\n{text}'


def _refuse_unsupported(asked: dict[str, Any]) -> None:
    """Raise an error if the arguments of `load` or `load_inline` are invalid or unsupported."""
    if asked["is_python_module"] and asked["is_standalone"]:
        raise ValueError("`is_python_module` and `is_standalone` are mutually exclusive.")
    if asked["is_standalone"]:
        raise NotImplementedError(
            "is_standalone=True builds a program; a submission needs an extension"
        )
    if asked["with_sycl"] or any(str(path).endswith(".sycl") for path in asked["sources"]):
        raise NotImplementedError("SYCL needs Intel's compiler; write the kernels in CUDA")
    is_without_cuda = asked["with_cuda"] is not None and not asked["with_cuda"]
    if is_without_cuda and any(is_cuda_source(str(path)) for path in asked["sources"]):
        raise ValueError(
            "with_cuda=False gives CUDA sources to the C++ compiler, which does not compile them"
        )


def _replace_file(path: Path, content: bytes) -> None:
    """Replace a file by a new one; processes that have loaded the old file keep it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)


def _do_nothing(*_: Any, **__: Any) -> None:
    pass


def _cuda_flags(given: Sequence[str]) -> tuple[str, ...]:
    """Return nvcc's flags: the submission's, and torch's `-std=` flag if the submission gives none.

    If `TORCH_CUDA_ARCH_LIST` is set, the flags for its architectures come first.
    """
    flags = as_torch_passes(given)
    if os.environ.get("TORCH_CUDA_ARCH_LIST", "native") != "native":
        flags = (*cpp_extension._get_cuda_arch_flags(list(given)), *flags)
    # Like torch, this examines only the beginning of each item.
    own_standard = any(flag.strip().startswith("-std=") for flag in given)
    return flags if own_standard else (*flags, torch_language_standard())


def as_torch_passes(given: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that a compiler gets when torch is given this list of flags.

    torch joins the flags with spaces, ninja replaces what follows a dollar sign, and a shell splits
    the result. So an empty flag is dropped, and a flag with a space becomes two arguments.

    Raises:
        ValueError: ninja or the shell would reject the flags; the message says why.
    """
    text = _through_ninja(" ".join(flag.strip() for flag in given))
    done = subprocess.run(
        ["/bin/sh", "-c", rf"printf '%s\0' {text}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ValueError(f"the shell rejects the flags {list(given)}: {done.stderr.strip()}")
    # Without arguments, printf prints one empty word.
    return () if done.stdout == "\0" else tuple(done.stdout.split("\0")[:-1])


def _through_ninja(text: str) -> str:
    """Return the value that a variable gets if a ninja build file assigns this text to it.

    The rules are in https://ninja-build.org/manual.html, "Lexical syntax". References to variables
    become empty, since the variables of torch's build file are not meant for flags.

    Raises:
        ValueError: ninja would reject the text.
    """
    if "\n" in text:
        raise ValueError(f"a flag contains a line break, which ninja does not allow: {text!r}")

    def value(found: re.Match[str]) -> str:
        if found[0] == "$":
            raise ValueError(
                f"a flag contains a lone $, which ninja does not allow; write $$: {text!r}"
            )
        return found["literal"] or ""

    return re.sub(r"\$(?:(?P<literal>[$ :])|\{[\w.-]+\}|[\w-]+)?", value, text, flags=re.ASCII)


def _file_name(index: int, path: Path) -> str:
    """Return a file name for a source, different for each index."""
    return f"{path.stem}.{index}{path.suffix}" if index else path.name
