"""A lower bound of the time of any kernel for a problem, from its bytes and operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from harness.problems.grid import Case
from harness.problems.problem import Problem

# A gibibyte reaches a steady rate, and is far larger than any cache.
_COPY_BYTES = 1 << 30
_MATRIX_SIZE = 8192
_REPEATS = 10


@dataclass(frozen=True)
class Rates:
    """The rates that the GPU reached in a trial, just before a measurement.

    Attributes:
        bytes_per_second: Rate of a large copy in device memory, as bytes read plus bytes written
            for each second.
        flops_per_second: Floating-point operations for each second in a large matrix product in
            bfloat16, the fastest arithmetic that any precision class may use.
    """

    bytes_per_second: float
    flops_per_second: float


@dataclass(frozen=True)
class LeastWork:
    """The least work that any kernel must do for a problem.

    Attributes:
        bytes: Bytes to move if every input and weight is read once and the output is written once.
        flops: Floating-point operations: two for each product that is summed into an output
            element; 0 if the number of products is unknown.
    """

    bytes: int
    flops: int

    def floor_ms(self, rates: Rates) -> float:
        """Return the time in ms that the bytes or the operations take, whichever is longer."""
        moving = self.bytes / rates.bytes_per_second
        return 1e3 * max(moving, self.flops / rates.flops_per_second)


def measured_rates() -> Rates:
    """Measure the rates of the GPU that torch uses; this takes about a tenth of a second."""
    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copying = _fastest_ms(lambda: target.copy_(source))
    matrix = torch.randn(_MATRIX_SIZE, _MATRIX_SIZE, device="cuda", dtype=torch.bfloat16)
    product = torch.empty_like(matrix)
    multiplying = _fastest_ms(lambda: torch.mm(matrix, matrix, out=product))
    return Rates(
        bytes_per_second=2e3 * _COPY_BYTES / copying,
        flops_per_second=2e3 * _MATRIX_SIZE**3 / multiplying,
    )


def least_work(problem: Problem, case: Case, weight_bytes: int, output_bytes: int) -> LeastWork:
    """Return the least work for a case whose weights and output have these sizes in bytes."""
    inputs = sum(
        math.prod(shape) * getattr(torch, dtype).itemsize
        for shape, dtype in zip(case.input_shapes, case.input_dtypes, strict=True)
    )
    total = inputs + weight_bytes + output_bytes
    need = problem.family.need(case)
    return LeastWork(total, 2 * need.products if need else 0)


def _fastest_ms(operation: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(_REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        operation()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return min(times)
