"""Run compilers on text of strangers: in a sandbox, with a deadline."""

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
# Nothing that is compiled is so large; folders of data may be readable, too.
_MOST_BYTES_TO_READ = 16 << 20


class CompileTimeout(TimeoutError):
    """The deadline passed; the compiler and all that it started are dead."""


class Compiler:
    """Compiles for one submission.

    The compilers see the system, the toolchain, Python, the harness, the submission's C++ and CUDA
    sources and what else is readable to it; what they write lies in memory, and only the product
    comes out.
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
        """A job may take so many seconds, and all of them `together`."""
        own = (toolchain.cuda.home, view.of_program(toolchain.host.path))
        self._sources = sources or {}
        self._confinement = Confinement(
            (*own, *readable), self._sources, must_hold=must_be_confined
        )
        self.is_confined = bubblewrap.usable() is not None
        """Whether compilers see no other files than they are shown."""
        self._covered = (*view.system(), *view.python(), *own)
        self._readable = readable
        self._seconds = seconds
        self._together = together or Allowance(math.inf)

    def run(self, job: Job, readable: tuple[Path, ...] = ()) -> Result:
        """Do a job, which may read the harness's own files at `readable`, too.

        Its dependencies are files that are readable to the submission; without a sandbox, all that
        are no part of the system, of Python or of the toolchain.

        Raises:
            CompileTimeout: the deadline passed.
            CompileError: a command failed, or took more than it may.
        """
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
                    raise CompileTimeout(f"no end within {seconds:.0f} s; killed")
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
        """What a build may read and no list of dependencies tells: text for its key.

        Of the submission's own sources that is where they lie and what they hold, and so it is of
        all files that are readable to it: a source can ask whether they are there, an assembler and
        a linker read them as well, and no list of dependencies has those. Python files are left
        out, since a submission is one, and no compiler reads it.
        """
        own = [f"{place} {file_digest(path)}" for path, place in self._sources.items()]
        paths = {
            each for path in self._readable for each in (path, *path.rglob("*")) if each.is_file()
        }
        return sorted([*own, *(_state_of(path) for path in paths if path.suffix != ".py")])

    def _is_watched(self, path: str) -> bool:
        """Whether a build depends on a file that its key does not cover.

        In a sandbox it is one of the readable files. Without one it is any: whoever includes it
        need not have named it.
        """
        file = Path(path).resolve()
        if not self.is_confined:
            is_covered = any(file.is_relative_to(each.resolve()) for each in self._covered)
            return file.is_file() and not is_covered
        is_below = any(file.is_relative_to(each.resolve()) for each in self._readable)
        return is_below and file.is_file()


def _state_of(path: Path) -> str:
    """Where a file lies and what it holds; of a large one, when it was last changed."""
    try:
        state = path.stat()
        if state.st_size > _MOST_BYTES_TO_READ:
            return f"{path} {state.st_size} {state.st_ctime_ns}"
        return f"{path} {file_digest(path)}"
    except OSError as error:  # it cannot be read by a compiler either
        return f"{path} {error.strerror}"
