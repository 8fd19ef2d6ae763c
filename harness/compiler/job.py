"""Jobs for the compiler process and the results of jobs, as plain data that a pipe can carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from harness.compiler.ninja import Step
from harness.system import codec

MAX_HEADER_BYTES = 16 << 20
MAX_OUTPUT_CHARACTERS = 1 << 20
MAX_DEPENDENCIES = 20_000


@dataclass(frozen=True)
class Job:
    """Source files, and the commands that make one file (the product) from them.

    Attributes:
        files: Pairs (name, text) of the source files, which are written to an empty folder.
        attempts: Alternative lists of steps, each with other headers or another language standard.
            If an attempt fails and the next attempt may help, the next attempt runs. It skips steps
            whose output file exists already.
        then: Steps to run after a successful attempt, such as linking.
        product: Name of the file that the job makes.
        depfiles: Names of the files in which compilers list the files that they read, as make
            rules.
    """

    files: tuple[tuple[str, str], ...]
    attempts: tuple[tuple[Step, ...], ...]
    then: tuple[Step, ...]
    product: str
    depfiles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """The result of a job.

    Attributes:
        product: The bytes of the file that the job made; None if a command failed.
        attempt: Index in `Job.attempts` of the attempt that succeeded.
        dependencies: Paths of the files that the compilers report to have read.
        output: Output of the commands that failed.
    """

    product: bytes | None
    attempt: int = 0
    dependencies: tuple[str, ...] = ()
    output: str = ""

    def write(self, file: IO[bytes]) -> None:
        """Write a line of JSON, and then the product's bytes."""
        # Cut to what `read` accepts: the reader limits what an untrusted process can make it store.
        header = _Header(
            self.product is not None,
            self.attempt,
            self.dependencies[:MAX_DEPENDENCIES],
            self.output[:MAX_OUTPUT_CHARACTERS],
        )
        file.write(codec.encode(header).encode() + b"\n")
        file.write(self.product or b"")
        file.flush()

    @classmethod
    def read(cls, file: IO[bytes]) -> Result:
        """Return the result that is in a file, which untrusted code may have forged.

        Raises:
            ValueError: The file's content is not a result.
        """
        header = codec.decode(file.readline(MAX_HEADER_BYTES).decode(), _Header)
        if len(header.dependencies) > MAX_DEPENDENCIES or "\0" in "".join(header.dependencies):
            raise ValueError("a result whose dependencies are no paths")
        product = file.read() if header.is_made else None
        return cls(product, header.attempt, header.dependencies, header.output)


@dataclass(frozen=True)
class _Header:
    """The line of JSON before the product's bytes."""

    is_made: bool
    attempt: int
    dependencies: tuple[str, ...]
    output: str
