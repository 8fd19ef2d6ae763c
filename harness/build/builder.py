"""Build extensions through the cache: first with light headers, then with torch's full ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from json import dumps
from pathlib import Path

from harness.build import flags
from harness.build.cache import Cache, Entry, Product, digest, file_digest
from harness.build.flags import Extension, Target
from harness.build.ninja import CompileError, Step, dependencies, run_ninja
from harness.build.toolchain import HostCompiler, Toolchain

LIBRARY = "module.so"
REFUSAL = "refusal.txt"

# Errors that may be gone at the next try, though the sources are the same: something was installed,
# somebody freed the disk, another process ended.
_PASSING_ERRORS = re.compile(
    "no such file|no space left|killed|out of memory|internal (compiler )?error|cannot open",
    re.IGNORECASE,
)


class Builder:
    """Builds extensions for one target with one toolchain."""

    def __init__(self, toolchain: Toolchain, cache: Cache, target: Target) -> None:
        self.toolchain = toolchain
        self.cache = cache
        self.target = target

    def build(self, extension: Extension) -> Entry:
        """The extension's shared object, from the cache or freshly compiled.

        `Entry.notes["headers"]` says whether the light headers were enough.

        Raises:
            CompileError: neither with the light nor with the full headers does it compile; the
                output is that of the full ones, which are torch's own.
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
            )
        )

    def _compile_or_refuse(self, extension: Extension, folder: Path) -> Product:
        """Compile; keep a compiler's refusal too, where it depends on the key alone."""
        try:
            return self._compile(extension, folder)
        except CompileError as error:
            if extension.include_paths or _PASSING_ERRORS.search(error.output):
                raise
            (folder / REFUSAL).write_text(error.output)
            return Product(folder / REFUSAL)

    def _compile(self, extension: Extension, folder: Path) -> Product:
        for name, text in extension.sources:
            (folder / name).write_text(text)
        headers = "light"
        try:
            run_ninja(folder, self._object_steps(extension, light=True))
        except CompileError:
            headers = "full"
            missing = [
                step
                for step in self._object_steps(extension, light=False)
                if not (folder / step.output).exists()
            ]
            run_ninja(folder, missing)
        objects = [step.output for step in self._object_steps(extension, light=True)]
        link = flags.link_command(extension, self.toolchain, self.target, objects, LIBRARY)
        run_ninja(folder, [Step(LIBRARY, link, tuple(objects))])
        read = dependencies(folder, [f"{name}.d" for name, _ in extension.sources])
        product = Product(
            folder / LIBRARY, tuple(sorted(self._own_files(folder, read))), {"headers": headers}
        )
        for file in objects:
            (folder / file).unlink()
        return product

    def _object_steps(self, extension: Extension, *, light: bool) -> list[Step]:
        steps = []
        for name, _ in extension.sources:
            make = flags.cuda_command if flags.is_cuda_source(name) else flags.cpp_command
            command = make(extension, self.toolchain, self.target, name, light=light)
            steps.append(Step(f"{name}.o", command, (name,)))
        return steps

    def _own_files(self, folder: Path, read: Iterable[Path]) -> set[Path]:
        """The headers of the submission itself: the others are covered by versions in the key."""
        system = [Path("/usr"), folder, self.toolchain.cuda.home, flags.OVERLAY]
        command = flags.include_flags(Extension("", ()), self.toolchain, self.target, light=False)
        system += [Path(word) for word in command if word.startswith("/")]
        resolved = [path.resolve() for path in system]
        return {
            path
            for path in (file.resolve() for file in read)
            if not any(path.is_relative_to(root) for root in resolved)
        }


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
