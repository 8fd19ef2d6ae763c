"""Time of the reference's model on a GPU, measured if a submission is too slow to be timed."""

from __future__ import annotations

import time

import torch

from harness.problems.grid import Case
from harness.problems.problem import Problem


def reference_seconds(problem: Problem, case: Case) -> float | None:
    """Return the wall-clock seconds of `Model`'s second eager call on the GPU; None if it fails."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model = problem.model(**case.arguments).cuda()
            inputs = [
                torch.rand(shape, device="cuda").to(getattr(torch, dtype))
                for shape, dtype in zip(case.input_shapes, case.input_dtypes, strict=True)
            ]
            arguments = problem.forward_arguments(inputs)
            model(*arguments)
            torch.cuda.synchronize()
            start = time.monotonic()
            model(*arguments)
            torch.cuda.synchronize()
            return time.monotonic() - start
    except Exception:  # out of memory, or random inputs are invalid: then there is just no time
        return None
