"""Builds of extensions through the cache; a build tries small headers before torch's headers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path

from harness.compiler import flags, prelude, slim
from harness.compiler.architectures import Image
from harness.compiler.cache import Cache, Entry, Product, digest, file_digest
from harness.compiler.compiler import Compiler, CompileTimeout
from harness.compiler.failures import Failures
from harness.compiler.flags import Extension, Target
from harness.compiler.job import Job
from harness.compiler.ninja import CompileError, Step, linkers_words, run_ninja
from harness.compiler.toolchain import HostCompiler, Toolchain
from harness.system.interpreter import PACKAGE

LIBRARY = "module.so"
REFUSAL = "refusal.txt"

# Errors that may not recur with the same sources: a package gets installed, disk space is freed,
# another process ends. They are not stored in the cache.
_LACKING = re.compile(
    "no space left|killed|kill signal|signal 9|out of memory|memory exhausted"
    "|cannot allocate|temporarily unavailable|internal (compiler )?error",
    re.IGNORECASE,
)
"""Errors for a momentary lack of resources, after which even the same run tries again."""
_PASSING_ERRORS = re.compile(f"no such file|cannot open|{_LACKING.pattern}", re.IGNORECASE)


# Sources and flags that may read a file which no dependency list contains: assembler and
# preprocessor directives, __has_include of an absolute path, option files, linker inputs.
_READING = re.compile(r"\bincbin\b|#\s*embed\b|__has_embed|__has_include\s*\(\s*[\"<]/")
_READING_FLAG = re.compile(r"^(-Wl,)?@|^--?(options-file|optf)\b")
_READING_LINK_FLAG = re.compile(r"^-[LT]|^-l:|-script|^[^-]|/")


_Levels = tuple[flags.Headers, ...]
"""The level of headers for each of an extension's sources, in their order."""


class Builder:
    """Builds the extensions of one submission for one device with one toolchain.

    Attributes:
        toolchain: nvcc and the C++ compiler.
        cache: Store of finished builds.
        target: The device and the GPU architecture to compile for.
        folders: Cache folders of all requested builds, including builds that a compiler refused.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        cache: Cache,
        target: Target,
        compiler: Compiler,
        run: str = "",
    ) -> None:
        """Create a builder of extensions.

        Args:
            toolchain: nvcc and the C++ compiler.
            cache: Store of finished builds.
            target: The device and the GPU architecture to compile for.
            compiler: Object that runs the compilers, in a sandbox if there is one.
            run: Name that all builders of one command share. If a build fails, no builder with this
                name repeats the build.
        """
        self.toolchain = toolchain
        self.cache = cache
        self.target = target
        self._compiler = compiler
        self._run = run
        self._failures = Failures(cache.root, run)
        self.folders: list[Path] = []

    def build(self, extension: Extension, on_begin: Callable[[], None] = lambda: None) -> Entry:
        """Return the extension's shared object, from the cache or freshly compiled.

        Device code that is built for newer devices alone is compiled all the same;
        `Entry.notes["devices"]` then names these.

        `Entry.notes["headers"]` names the headers with which the extension compiled: `slim`,
        `light` or `full`, the smallest of them that worked.

        Args:
            extension: The sources and options of the extension.
            on_begin: Function that is called before a build that is not in the cache.

        Raises:
            CompileError: The extension does not compile with any headers that were tried.
            harness.compiler.compiler.CompileTimeout: The deadline of the build passed.
        """
        others = flags.images_for_other_devices(extension, self.target)
        newest = max((each.number for each in others), default=0)
        if others and newest < int(self.target.architecture):
            raise CompileError(_no_image(others, self.target.architecture))
        key = self._key(extension)
        entry = self.cache.get_or_build(
            key, lambda folder: self._compile_or_refuse(extension, key, folder, on_begin)
        )
        self.folders.append(entry.library.parent)
        if entry.library.name == REFUSAL:
            raise CompileError(entry.library.read_text())
        return entry

    def _key(self, extension: Extension) -> str:
        """Return an extension's cache key: a digest of all inputs that are known before a build.

        The key does not cover included files that the compilers list as dependencies. The cache
        compares the digests of such files when it reads an entry. To find these files before a
        build, as ccache does, the preprocessor would have to run on torch's headers for each
        look-up.
        """
        return digest(
            (
                dumps(asdict(extension)),
                dumps(asdict(self.target)),
                flags.torch_version(),
                self.toolchain.host.version,
                self.toolchain.cuda.version,
                *flags.without_torch_folder(
                    flags.link_command(extension, self.toolchain, self.target, (), LIBRARY)
                ),
                *_overlay_digests(),
                *self._compiler.visible(),
                *([self._run or secrets.token_hex()] if self._reads_unseen(extension) else ()),
                # A build without a sandbox could read any file of the machine, so a build in a
                # sandbox must not reuse it.
                *(() if self._compiler.is_confined else ("without a sandbox",)),
            )
        )

    def _reads_unseen(self, extension: Extension) -> bool:
        """Return whether a build of the extension may read files that no dependency list contains.

        The key of such an extension differs in every command, so that it is built again each time.
        """
        options = (*extension.cpp_flags, *extension.cuda_flags, *extension.link_flags)
        texts = [text for _, text in extension.sources]
        return (
            any(_READING.search(text) for text in texts)
            or any(_READING_FLAG.search(flag) for flag in options)
            or any(_READING_LINK_FLAG.search(flag) for flag in extension.link_flags)
            # The compilers do not list a file that __has_include did not find. In a sandbox, all
            # readable files are part of the key.
            or (not self._compiler.is_confined and any("__has_include" in text for text in texts))
        )

    def _compile_or_refuse(
        self, extension: Extension, key: str, folder: Path, on_begin: Callable[[], None]
    ) -> Product:
        """Compile an extension; if this fails, cache an error that must recur for the same key.

        With the cached error, later checks of the submission need no build. An error that may not
        recur is not cached. If the extension has include paths, its errors are not cached either,
        because the folders may get further headers. `Failures` keeps the uncached errors for the
        present command, except errors from a lack of resources.
        """
        self._failures.recall(key)
        on_begin()
        try:
            attempts = self._attempts(extension)
            header = self._prelude(extension, attempts[0])
            readable = (header.parent,) if header else ()
            result = self._compiler.run(self._job(extension, attempts, header), readable)
        except CompileTimeout as late:
            self._failures.keep(key, late)
            raise
        except CompileError as refusal:
            error = _with_linkers_words(refusal, extension)
            if extension.include_paths or _PASSING_ERRORS.search(error.output):
                if not _LACKING.search(error.output):
                    self._failures.keep(key, error)
                raise error from None
            (folder / REFUSAL).write_text(error.output)
            return Product(folder / REFUSAL)
        (folder / LIBRARY).write_bytes(result.product or b"")
        used = attempts[result.attempt]
        headers = "slim" if any(map(flags.is_slim, used)) else used[0]
        notes: dict[str, str] = {"headers": headers}
        if others := flags.images_for_other_devices(extension, self.target):
            notes["devices"] = _names(others)
        return Product(folder / LIBRARY, tuple(map(Path, result.dependencies)), notes)

    def _prelude(self, extension: Extension, first: _Levels) -> Path | None:
        """Return the precompiled header if a C++ source uses it in the first attempt; else None."""
        pairs = zip(extension.sources, first, strict=True)
        if not any(_has_prelude(source) and level == "light" for source, level in pairs):
            return None
        return prelude.find_or_make(
            extension, self.toolchain, self.target, self.cache, self._compiler, _overlay_digests()
        )

    def _job(self, extension: Extension, attempts: Sequence[_Levels], header: Path | None) -> Job:
        names = [name for name, _ in extension.sources]
        objects = [f"{name}.o" for name in names]
        link = flags.link_command(extension, self.toolchain, self.target, objects, LIBRARY)
        return Job(
            files=extension.sources,
            attempts=tuple(self._steps(extension, levels, header) for levels in attempts),
            then=(Step(LIBRARY, link, tuple(objects)),),
            product=LIBRARY,
            depfiles=tuple(f"{name}.d" for name in names),
        )

    def _attempts(self, extension: Extension) -> tuple[_Levels, ...]:
        """Return, for each attempt in order, the level of headers that each source gets.

        Small headers are tried first, because most of a build's time is spent on parsing headers.
        """
        # The slim headers call functions of a worker's simulated `cuda` device.
        is_simulated = self.target.device == "simulator"
        slim_ones = slim.sources(extension) if is_simulated else frozenset()
        names = [name for name, _ in extension.sources]
        light: _Levels = tuple("light" for _ in names)
        full: _Levels = tuple("full" for _ in names)
        if not slim_ones:
            return light, full
        small: _Levels = tuple("slim" if name in slim_ones else "light" for name in names)
        if not slim.may_be_older(extension):
            return small, light, full
        older: _Levels = tuple("slim17" if level == "slim" else level for level in small)
        return older, small, light, full

    def _steps(
        self, extension: Extension, levels: _Levels, header: Path | None
    ) -> tuple[Step, ...]:
        return tuple(
            Step(f"{name}.o", self._command(extension, name, text, level, header), (name,))
            for (name, text), level in zip(extension.sources, levels, strict=True)
        )

    def _command(
        self,
        extension: Extension,
        name: str,
        text: str,
        headers: flags.Headers,
        header: Path | None,
    ) -> tuple[str, ...]:
        make = flags.cuda_command if flags.is_cuda_source(name) else flags.cpp_command
        command = make(extension, self.toolchain, self.target, name, headers=headers)
        program, *options = command
        if headers == "slim17":
            standard = flags.torch_language_standard()
            options = [slim.OLDER if word == standard else word for word in options]
        if flags.is_slim(headers):
            return (program, *slim.definitions(text), *options)
        if headers == "full":
            return command
        included = flags.headers_by_use(text)
        if header and _has_prelude((name, text)):
            # GCC uses a precompiled header only if it is included before any other code.
            included = ["-include", str(header), *included]
        return (program, *included, *options)


def _has_prelude(source: tuple[str, str]) -> bool:
    name, text = source
    return not flags.is_cuda_source(name) and prelude.begins(text)


def _names(images: Sequence[Image]) -> str:
    return ", ".join(dict.fromkeys(image.name for image in images))


def _no_image(images: Sequence[Image], architecture: str) -> str:
    return (
        "error: no kernel image for this device: the flags (or TORCH_CUDA_ARCH_LIST) build "
        f"{_names(images)} alone, and it is sm_{architecture}; add "
        f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    )


def _with_linkers_words(error: CompileError, extension: Extension) -> CompileError:
    """Return a compile error; if the linker failed, put the linker's message first.

    If the message names one of the submission's linker flags, this flag is put there, too.
    """
    said = linkers_words(error.output)
    if said is None:
        return error
    about = [flag for flag in extension.link_flags if flag.removeprefix("-Wl,") in said]
    where = f" (from extra_ldflags: {about[0]!r})" if about else ""
    return CompileError(f"link error: {said}{where}\n{error.output}")


def _overlay_digests() -> list[str]:
    folders = (flags.OVERLAY, flags.SIMULATED)
    return [file_digest(path) for each in folders for path in sorted(each.rglob("*.h"))]


def build_shared_library(
    cache: Cache,
    name: str,
    compiler: HostCompiler,
    arguments: list[str],
    sources: list[Path],
    libraries: list[str],
    headers: Iterable[Path] = (),
) -> Entry:
    """Compile C or C++ sources of the harness itself to one shared object, through the cache.

    Args:
        cache: Store of finished builds.
        name: File name of the library.
        compiler: The C or C++ compiler.
        arguments: Options of the compiler, except those for inputs and outputs.
        sources: Files to compile. The cache key also covers all headers in the same folders.
        libraries: Options for the linker.
        headers: Headers in other folders that the sources include, for the cache key.

    Raises:
        CompileError: The sources do not compile.
    """
    beside = {path for source in sources for path in source.parent.glob("*.h")}
    beside.update(headers)
    key = digest(
        (
            name,
            compiler.version,
            flags.torch_version(),
            # A second copy of the harness, such as another clone, shares this build.
            *flags.without_torch_folder(
                word.replace(str(PACKAGE), "harness") for word in (*arguments, *libraries)
            ),
            *map(file_digest, sorted(beside)),
            *map(file_digest, sources),
        )
    )

    def build(folder: Path) -> Product:
        program = (str(compiler.path), "-fPIC", *arguments)
        objects = {source: f"{number}.o" for number, source in enumerate(sources)}
        compiling = [
            Step(made, (*program, "-c", str(source), "-o", made), ())
            for source, made in objects.items()
        ]
        link = (*program, "-shared", *objects.values(), *libraries, "-o", name)
        run_ninja(folder, [*compiling, Step(name, link, tuple(objects.values()))])
        return Product(folder / name)

    return cache.get_or_build(key, build)
