"""Compilation of untrusted source text, in a sandbox if there is one, and with a deadline."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from harness.compiler.cache import file_digest
from harness.compiler.job import Job, Result
from harness.compiler.ninja import CompileError
from harness.compiler.toolchain import Toolchain
from harness.sandbox import bubblewrap, view
from harness.sandbox.confined import Confined, Confinement
from harness.system import codec, interpreter
from harness.system.allowance import Allowance

_OUTPUT_TAIL_CHARACTERS = 2000
# No source is this large, but folders with data may be readable too.
_MOST_BYTES_TO_READ = 16 << 20


class CompileTimeout(TimeoutError):
    """The deadline of a build passed; the compiler and all its descendants were killed."""


class Compiler:
    """Runs the compilers for the extensions of one submission, in a sandbox if there is one.

    In a sandbox, the compilers see the system, the toolchain, Python and the harness. They also see
    the submission's C++ and CUDA sources, and other files that the submission may read. They write
    only to memory, and only the compiled file leaves the sandbox.

    Attributes:
        is_confined: True if the compilers run in a sandbox.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        readable: tuple[Path, ...] = (),
        sources: Mapping[Path, Path] | None = None,
        seconds: float = 900.0,
        together: Allowance | None = None,
        *,
        must_be_confined: bool = False,
    ) -> None:
        """Set up the sandbox and the time limits of one submission's compilers.

        Args:
            toolchain: nvcc and the C++ compiler.
            readable: Files and folders that the submission may read.
            sources: For the submission and each source file of it, the real path and the path
                inside the sandbox.
            seconds: Deadline of one job, in seconds.
            together: Time budget of all jobs together; unlimited by default.
            must_be_confined: True to raise an error if there is no sandbox.
        """
        own = (toolchain.cuda.home, view.of_program(toolchain.host.path))
        self._sources = sources or {}
        self._confinement = Confinement(
            (*own, *readable), self._sources, must_hold=must_be_confined
        )
        self.is_confined = bubblewrap.usable() is not None
        self._covered = (*view.system(), *view.python(), *own)
        self._readable = readable
        self._seconds = seconds
        self._together = together or Allowance(math.inf)

    def run(self, job: Job, readable: tuple[Path, ...] = ()) -> Result:
        """Run a job and return its result; the job may also read the harness's files `readable`.

        The dependencies in the result are only the files that the key of a build does not cover. In
        a sandbox, these are files that the submission may read. Without a sandbox, these are all
        files outside the system, Python and the toolchain.

        Raises:
            CompileTimeout: The deadline of one job or of all jobs passed.
            CompileError: A command failed or exceeded its resource limits.
        """
        # The streams are files, not pipes: nothing has to read them while the process runs, and the
        # limit of file size applies to them.
        with (
            tempfile.TemporaryFile() as asked,
            tempfile.TemporaryFile() as answered,
            tempfile.TemporaryFile() as said,
            self._together.spending(),
        ):
            seconds = self._together.limit(self._seconds)
            asked.write(codec.encode(job).encode())
            asked.seek(0)
            process = Confined(
                interpreter.command(
                    "harness.compiler.driver", json.dumps(asdict(self._confinement.limits))
                ),
                replace(self._confinement, readable=(*self._confinement.readable, *readable)),
                stdin=asked,
                stdout=answered,
                stderr=said,
            )
            try:
                if not process.wait(seconds):
                    raise CompileTimeout(
                        f"the compiler did not finish within {seconds:.0f} s and was killed"
                    )
                ended = process.how_it_ended
            finally:
                process.end()
            answered.seek(0)
            try:
                result = Result.read(answered)
            except ValueError:
                said.seek(0)
                tail = said.read().decode(errors="replace").strip()[-_OUTPUT_TAIL_CHARACTERS:]
                raise CompileError(f"error: the compiler {ended}\n{tail}".strip()) from None
        if result.product is None:
            raise CompileError(result.output)
        return replace(result, dependencies=tuple(filter(self._is_watched, result.dependencies)))

    def visible(self) -> list[str]:
        """Return texts for a build's key, about files that a build may read without listing them.

        Each text has a file's path and digest. The files are the submission's sources and all files
        that the submission may read. Dependency lists do not suffice, because they lack the files
        that assemblers and linkers read, and files that a source only tests for existence. Python
        files that the submission may read are left out, because no compiler reads them.
        """
        own = [f"{place} {file_digest(path)}" for path, place in self._sources.items()]
        paths = {
            each for path in self._readable for each in (path, *path.rglob("*")) if each.is_file()
        }
        return sorted([*own, *(_state_of(path) for path in paths if path.suffix != ".py")])

    def _is_watched(self, path: str) -> bool:
        """Return whether the file at `path` can change a build without changing the build's key.

        In a sandbox, only files that the submission may read can do so. Without a sandbox, all
        files outside the system, Python and the toolchain can do so.
        """
        file = Path(path).resolve()
        if not self.is_confined:
            is_covered = any(file.is_relative_to(each.resolve()) for each in self._covered)
            return file.is_file() and not is_covered
        is_below = any(file.is_relative_to(each.resolve()) for each in self._readable)
        return is_below and file.is_file()


def _state_of(path: Path) -> str:
    """Return a text with a file's path and digest, or, if it is large, its size and change time."""
    try:
        state = path.stat()
        if state.st_size > _MOST_BYTES_TO_READ:
            return f"{path} {state.st_size} {state.st_ctime_ns}"
        return f"{path} {file_digest(path)}"
    except OSError as error:  # a compiler cannot read it either
        return f"{path} {error.strerror}"
