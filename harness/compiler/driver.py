"""The process that runs a build's compilers in a sandbox.

Usage: `python -m harness.compiler.driver LIMITS`. The process reads a `Job` from standard input and
writes the `Result` to standard output. It does not import torch, so that it starts quickly.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.compiler.job import Job, Result
from harness.compiler.mending import other_headers_may_help
from harness.compiler.ninja import CompileError, Step, dependencies, run_ninja
from harness.sandbox.limits import Limits, die_with_parent
from harness.system import codec


def main() -> None:
    """Run the job from standard input under the limits from the command line; write the result."""
    die_with_parent()
    Limits(**json.loads(sys.argv[1])).impose()
    job = codec.decode(sys.stdin.read(), Job)
    folder = Path("build").absolute()
    folder.mkdir()
    try:
        result = _do(job, folder)
    except CompileError as error:
        result = Result(None, output=error.output)
    result.write(sys.stdout.buffer)


def _do(job: Job, folder: Path) -> Result:
    for name, text in job.files:
        (folder / name).write_text(text)
    attempt = 0
    # Objects of an earlier attempt are kept: only the sources that failed get other headers.
    for attempt, steps in enumerate(job.attempts):
        missing = [step for step in steps if not (folder / step.output).exists()]
        try:
            run_ninja(folder, missing)
        except CompileError as error:
            others = job.attempts[attempt + 1 :]
            if not others or not _may_help(error.output, steps, others[0]):
                raise
        else:
            break
    run_ninja(folder, job.then)
    if not (folder / job.product).is_file():
        # Some options make a compiler or linker write nothing, or write to another path.
        raise CompileError(f"error: the build commands succeeded but created no {job.product}")
    read = dependencies(folder, job.depfiles)
    # Files in this folder came with the job, so the key covers them.
    outside = {str(path.resolve()) for path in read if not path.resolve().is_relative_to(folder)}
    return Result((folder / job.product).read_bytes(), attempt, tuple(sorted(outside)))


def _may_help(output: str, failed: Sequence[Step], steps: Sequence[Step]) -> bool:
    """Return whether the steps of the next attempt may succeed after an attempt that failed."""
    another_standard = any(
        _standard(one) != _standard(other) for one, other in zip(failed, steps, strict=True)
    )
    return another_standard or other_headers_may_help(output, steps[0].command)


def _standard(step: Step) -> list[str]:
    return [word for word in step.command if word.startswith("-std=")]


if __name__ == "__main__":
    main()
