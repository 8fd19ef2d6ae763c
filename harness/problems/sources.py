"""Other numbers for a reference's `get_inputs`, which keeps what it makes of them.

The author says in `get_inputs` what is true of an input: that a matrix is triangular, rows are
normalised, labels are classes. So what is varied is not the input but the random numbers that it is
made from.
"""

from __future__ import annotations

from typing import Any

from torch import Generator
from torch.utils._python_dispatch import TorchDispatchMode

from harness.problems.draws import drawn, touch
from harness.problems.runs import Distribution

_MADE = frozenset({"rand", "randn", "rand_like", "randn_like"})
_FILLED = frozenset({"uniform_", "normal_"})

# Whose other numbers only tell something beside an input that stays as it is.
_OF_FIRST: frozenset[Distribution] = frozenset({"impulse"})


class Source(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Draws floating-point numbers otherwise; while it is entered, in one thread.

    Integers and permutations are left as they are: they choose classes and places, which the
    reference indexes with.

    Args:
        distribution: What is drawn instead.
        generator: Where numbers come from.
    """

    def __init__(self, distribution: Distribution, generator: Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._distribution = distribution
        self._generator = generator
        self._count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _draws(func):
            self._count += 1
            if self._count == 1 or self._distribution not in _OF_FIRST:
                values = drawn(self._distribution, tuple(result.shape), self._generator)
                result.copy_(values)
        return result


class Touch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Puts another number at one place of each random tensor; while it is entered.

    Args:
        generator: Where places come from.
    """

    def __init__(self, generator: Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _draws(func):
            touch(result, self._generator)
        return result


def _draws(func: Any) -> bool:
    name = func.overloadpacket.__name__
    return name in _FILLED or name in _MADE
