"""Execution of compiler commands by ninja, and extraction of the compilers' error messages."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ninja
from ninja import ninja_syntax

from harness.system import leash

# The program itself: its Python wrapper would not pass signals on.
_NINJA = str(Path(ninja.BIN_DIR) / "ninja")


class CompileError(RuntimeError):
    """A compiler or the linker failed.

    Attributes:
        output: Everything that the failed commands printed.
    """

    def __init__(self, output: str) -> None:
        super().__init__(first_error(output))
        self.output = output


@dataclass(frozen=True)
class Step:
    """One command, as a list of arguments that no shell interprets.

    Attributes:
        output: Name of the file that the command writes.
        command: The program and its arguments.
        inputs: Names of the files that the command reads.
    """

    output: str
    command: tuple[str, ...]
    inputs: tuple[str, ...]


def run_ninja(folder: Path, steps: Sequence[Step]) -> None:
    """Run the steps whose output is out of date, in `folder`; if one fails, still run the others.

    Raises:
        CompileError: A command failed.
    """
    (folder / "build.ninja").write_text(_ninja_file(steps))
    done = leash.run([_NINJA, "-k", "0"], folder)
    if done.returncode:
        raise CompileError(_only_compiler_output(done.stdout))


def _ninja_file(steps: Sequence[Step]) -> str:
    text = io.StringIO()
    # The type stub declares a file name, but the code takes a file object.
    writer = ninja_syntax.Writer(cast(Any, text), width=1000)
    for number, step in enumerate(steps):
        writer.rule(f"step{number}", ninja_syntax.escape(shlex.join(step.command)))
        escaped = [ninja_syntax.escape_path(name) for name in step.inputs]
        writer.build([ninja_syntax.escape_path(step.output)], f"step{number}", escaped)
    return text.getvalue()


def _only_compiler_output(output: str) -> str:
    """Return ninja's output without its progress, its last message and the failed command lines."""
    kept = []
    command_follows = False
    for line in output.splitlines():
        if command_follows:
            command_follows = False
        elif line.startswith("FAILED: "):
            command_follows = True
        elif not re.match(r"\[\d+/\d+\] |ninja: ", line):
            kept.append(line)
    return "\n".join(kept).strip()


def first_error(output: str) -> str:
    """Return the first line of a compiler's output that names an error, or else its first line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for pattern in (r"(fatal )?error\b", r"undefined reference|undefined symbol", r""):
        for line in lines:
            if re.search(pattern, line):
                return line
    return "the compiler failed without a message"


def linkers_words(output: str) -> str | None:
    r"""Return the first message of the linker, or None if the linker did not fail.

    g++ itself reports only that the linker failed.

    >>> linkers_words("/usr/bin/ld: cannot find -lx: No such file\ncollect2: error: ld returned 1")
    'cannot find -lx: No such file'
    """
    if not re.search(r"^collect2: error: ld returned", output, re.MULTILINE):
        return None
    lines = [line for line in output.splitlines() if "warning: " not in line]
    for number, line in enumerate(lines):
        said = re.match(r"(?:\S*/)?[\w-]*ld(?:\.\w+)?: (.*)", line)
        if said:
            # "in function f():" is the place; the error is in the next line.
            return lines[number + 1] if said[1].endswith(":") else said[1]
    return None


def dependencies(folder: Path, depfiles: Sequence[str]) -> set[Path]:
    """Return all files that the compilers read, from the make rules that they wrote in `folder`."""
    found = set()
    for name in depfiles:
        path = folder / name
        if path.is_file():
            text = path.read_text(errors="replace").replace("\\\n", " ")
            found |= {folder / word for word in re.split(r"(?<!\\)\s+", text.partition(":")[2])}
    return {path for path in found if path.is_file()}
