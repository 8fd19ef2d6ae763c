"""What a compiler is asked to do, and what it answers: plain data between two processes."""

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
    """Files, and the commands that make one file of them.

    Attributes:
        files: (name, text) each, written into an empty folder.
        attempts: Steps to run; where some of an attempt fail, and other headers may mend that,
            those of the next whose output is still missing are run.
        then: Steps that follow.
        product: The file that is wanted.
        depfiles: Make rules that the compilers write; they tell what was read.
    """

    files: tuple[tuple[str, str], ...]
    attempts: tuple[tuple[Step, ...], ...]
    then: tuple[Step, ...]
    product: str
    depfiles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What came of a job.

    Attributes:
        product: The wanted file's bytes; None where a command failed.
        attempt: Which attempt succeeded.
        dependencies: Paths of files that the compilers say they have read.
        output: What the commands that failed printed.
    """

    product: bytes | None
    attempt: int = 0
    dependencies: tuple[str, ...] = ()
    output: str = ""

    def write(self, file: IO[bytes]) -> None:
        """A line of JSON, and the product's bytes."""
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
        """The inverse of `write`, for bytes that a stranger may have written.

        Raises:
            ValueError: they are no result.
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
