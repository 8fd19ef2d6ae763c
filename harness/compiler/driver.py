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
    while True:
        # Objects of an earlier attempt are kept: only the sources that failed are compiled again.
        missing = [step for step in job.attempts[attempt] if not (folder / step.output).exists()]
        try:
            run_ninja(folder, missing)
            break
        except CompileError as error:
            following = _next(error.output, job.attempts, attempt)
            if following is None:
                raise
            attempt = following
    run_ninja(folder, job.then)
    if not (folder / job.product).is_file():
        # Some options make a compiler or linker write nothing, or write to another path.
        raise CompileError(f"error: the build commands succeeded but created no {job.product}")
    read = dependencies(folder, job.depfiles)
    # Files in this folder came with the job, so the key covers them.
    outside = {str(path.resolve()) for path in read if not path.resolve().is_relative_to(folder)}
    return Result((folder / job.product).read_bytes(), attempt, tuple(sorted(outside)))


def _next(output: str, attempts: Sequence[Sequence[Step]], failed: int) -> int | None:
    """Return the index of the next attempt that may succeed, or None if there is none.

    Args:
        output: Output of the compilers in the failed attempt.
        attempts: The steps of all attempts.
        failed: Index of the failed attempt.
    """
    others = range(failed + 1, len(attempts))
    if not others:
        return None
    may_need_headers = other_headers_may_help(output, attempts[others[-1]][0].command)
    pairs = zip(attempts[failed], attempts[others[0]], strict=True)
    if any(_standard(one) != _standard(other) for one, other in pairs):
        # Attempts with other headers have the newer language standard, too.
        return others[1] if may_need_headers else others[0]
    return others[0] if may_need_headers else None


def _standard(step: Step) -> list[str]:
    return [word for word in step.command if word.startswith("-std=")]


if __name__ == "__main__":
    main()
