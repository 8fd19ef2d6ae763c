"""What a compiler is asked to do, and what it answers: plain data between two processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

from harness.compiler.ninja import Step

MAX_HEADER_BYTES = 16 << 20
MAX_OUTPUT_CHARACTERS = 1 << 20
MAX_DEPENDENCIES = 20_000


@dataclass(frozen=True)
class Job:
    """Files, and the commands that make one file of them.

    Attributes:
        files: (name, text) each, written into an empty folder.
        attempts: Steps to run; where some of an attempt fail, those of the next whose output is
            still missing are run.
        then: Steps that follow.
        product: The file that is wanted.
        depfiles: Make rules that the compilers write; they tell what was read.
    """

    files: tuple[tuple[str, str], ...]
    attempts: tuple[tuple[Step, ...], ...]
    then: tuple[Step, ...]
    product: str
    depfiles: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Text for the other process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return cls(
            files=tuple((name, content) for name, content in data["files"]),
            attempts=tuple(_steps(attempt) for attempt in data["attempts"]),
            then=_steps(data["then"]),
            product=data["product"],
            depfiles=tuple(data["depfiles"]),
        )


def _steps(plain: Sequence[dict[str, Any]]) -> tuple[Step, ...]:
    return tuple(
        Step(step["output"], tuple(step["command"]), tuple(step["inputs"])) for step in plain
    )


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
        header = {
            "is_made": self.product is not None,
            "attempt": self.attempt,
            "dependencies": self.dependencies[:MAX_DEPENDENCIES],
            "output": self.output[:MAX_OUTPUT_CHARACTERS],
        }
        file.write(json.dumps(header).encode() + b"\n")
        file.write(self.product or b"")
        file.flush()

    @classmethod
    def read(cls, file: IO[bytes]) -> Result:
        """The inverse of `write`, for bytes that a stranger may have written.

        Raises:
            ValueError: they are no result.
        """
        line = file.readline(MAX_HEADER_BYTES)
        try:
            header = json.loads(line)
            attempt, output = header["attempt"], header["output"]
            dependencies, is_made = header["dependencies"], header["is_made"]
        except (TypeError, KeyError, RecursionError):
            raise ValueError("a result without a header") from None
        fits = (
            type(attempt) is int
            and type(output) is str
            and type(is_made) is bool
            and type(dependencies) is list
            and len(dependencies) <= MAX_DEPENDENCIES
            and all(type(path) is str and "\0" not in path for path in dependencies)
        )
        if not fits:
            raise ValueError("a result whose header does not fit")
        return cls(file.read() if is_made else None, attempt, tuple(dependencies), output)
