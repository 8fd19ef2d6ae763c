"""Build extensions through the cache: first with light headers, then with torch's full ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from json import dumps
from pathlib import Path

from harness.build import flags
from harness.build.cache import Cache, Entry, Product, digest, file_digest
from harness.build.compiler import Compiler
from harness.build.flags import Extension, Target
from harness.build.job import Job
from harness.build.ninja import CompileError, Step, run_ninja
from harness.build.toolchain import HostCompiler, Toolchain

LIBRARY = "module.so"
REFUSAL = "refusal.txt"

# Errors that may be gone at the next try, though the sources are the same: something was installed,
# somebody freed the disk, another process ended.
_PASSING_ERRORS = re.compile(
    "no such file|no space left|killed|kill signal|signal 9|out of memory|memory exhausted"
    "|cannot allocate|temporarily unavailable|internal (compiler )?error|cannot open",
    re.IGNORECASE,
)


class Builder:
    """Builds extensions for one target with one toolchain."""

    def __init__(
        self, toolchain: Toolchain, cache: Cache, target: Target, compiler: Compiler
    ) -> None:
        self.toolchain = toolchain
        self.cache = cache
        self.target = target
        self._compiler = compiler

    def build(self, extension: Extension) -> Entry:
        """The extension's shared object, from the cache or freshly compiled.

        `Entry.notes["headers"]` says whether the light headers were enough.

        Raises:
            CompileError: neither with the light nor with the full headers does it compile; the
                output is that of the full ones, which are torch's own.
            harness.build.compiler.CompileTimeout: the deadline passed.
        """
        entry = self.cache.get_or_build(
            self._key(extension), lambda folder: self._compile_or_refuse(extension, folder)
        )
        if entry.library.name == REFUSAL:
            raise CompileError(entry.library.read_text())
        return entry

    def _key(self, extension: Extension) -> str:
        return digest(
            (
                dumps(asdict(extension)),
                dumps(asdict(self.target)),
                flags.torch_version(),
                self.toolchain.host.version,
                self.toolchain.cuda.version,
                # Moving the environment breaks the links to torch's libraries.
                *flags.link_command(extension, self.toolchain, self.target, (), LIBRARY),
                *_overlay_digests(),
                *self._compiler.visible(extension.include_paths),
            )
        )

    def _compile_or_refuse(self, extension: Extension, folder: Path) -> Product:
        """Compile; keep a compiler's refusal too, where it depends on the key alone."""
        try:
            result = self._compiler.run(self._job(extension))
        except CompileError as error:
            if extension.include_paths or _PASSING_ERRORS.search(error.output):
                raise
            (folder / REFUSAL).write_text(error.output)
            return Product(folder / REFUSAL)
        (folder / LIBRARY).write_bytes(result.product or b"")
        headers = "full" if result.attempt else "light"
        return Product(
            folder / LIBRARY, tuple(map(Path, result.dependencies)), {"headers": headers}
        )

    def _job(self, extension: Extension) -> Job:
        names = [name for name, _ in extension.sources]
        light = self._object_steps(extension, light=True)
        objects = [step.output for step in light]
        link = flags.link_command(extension, self.toolchain, self.target, objects, LIBRARY)
        return Job(
            files=extension.sources,
            attempts=(light, self._object_steps(extension, light=False)),
            then=(Step(LIBRARY, link, tuple(objects)),),
            product=LIBRARY,
            depfiles=tuple(f"{name}.d" for name in names),
        )

    def _object_steps(self, extension: Extension, *, light: bool) -> tuple[Step, ...]:
        steps = []
        for name, _ in extension.sources:
            make = flags.cuda_command if flags.is_cuda_source(name) else flags.cpp_command
            command = make(extension, self.toolchain, self.target, name, light=light)
            steps.append(Step(f"{name}.o", command, (name,)))
        return tuple(steps)


def _overlay_digests() -> list[str]:
    return [file_digest(path) for path in sorted(flags.OVERLAY.rglob("*.h"))]


def build_shared_library(
    cache: Cache,
    name: str,
    compiler: HostCompiler,
    arguments: list[str],
    sources: list[Path],
    headers: Iterable[Path] = (),
) -> Entry:
    """Compile the harness's own C or C++ sources to one shared object.

    Args:
        cache: where it is kept.
        name: file name of the library.
        compiler: what compiles them.
        arguments: its options, without the output.
        sources: files to compile; headers beside them belong to the key.
        headers: others that they include.

    Raises:
        CompileError: it does not compile.
    """
    beside = {path for source in sources for path in source.parent.glob("*.h")}
    beside.update(headers)
    key = digest(
        (
            name,
            compiler.version,
            flags.torch_version(),
            *arguments,
            *map(file_digest, sorted(beside)),
            *map(file_digest, sources),
        )
    )

    def build(folder: Path) -> Product:
        command = (
            str(compiler.path),
            "-shared",
            "-fPIC",
            *arguments,
            *map(str, sources),
            "-o",
            name,
        )
        run_ninja(folder, [Step(name, command, ())])
        return Product(folder / name)

    return cache.get_or_build(key, build)
