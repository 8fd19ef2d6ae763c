"""Jobs for the compiler process and their results: plain data between two processes."""

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
    """Source files, and the commands that make one file from them.

    Attributes:
        files: Pairs (name, text), written to an empty folder.
        attempts: Alternative lists of steps, such as with other headers. If an attempt fails and
            the next may succeed, those of its steps run whose output is missing.
        then: Steps after the attempts, such as linking.
        product: Name of the file to return.
        depfiles: Names of the make rules that the compilers write; they list the files that were
            read.
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
        product: The bytes of the product; None if a command failed.
        attempt: Index of the attempt that succeeded.
        dependencies: Paths of the files that the compilers report to have read.
        output: Output of the commands that failed.
    """

    product: bytes | None
    attempt: int = 0
    dependencies: tuple[str, ...] = ()
    output: str = ""

    def write(self, file: IO[bytes]) -> None:
        """Write a line of JSON and the product's bytes."""
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
        """Return the result that `write` wrote, or that untrusted code forged.

        Raises:
            ValueError: The bytes are not a result.
        """
        header = codec.decode(file.readline(MAX_HEADER_BYTES).decode(), _Header)
        if len(header.dependencies) > MAX_DEPENDENCIES or "\0" in "".join(header.dependencies):
            raise ValueError("a result whose dependencies are no paths")
        product = file.read() if header.is_made else None
        return cls(product, header.attempt, header.dependencies, header.output)


@dataclass(frozen=True)
class _Header:
    """A result without its product's bytes."""

    is_made: bool
    attempt: int
    dependencies: tuple[str, ...]
    output: str
