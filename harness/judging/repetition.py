"""Judgement of whether a submission computes its output anew when it gets the same inputs again.

A submission that keeps outputs can add arithmetic whose results it does not use. So all counters of
the repeated call are compared, not only its arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.finding import Finding
from harness.judging.integrity import CHECK
from harness.problems.values import Call
from harness.simulator.counters.totals import Totals

# With the same weights and nearly the same inputs, most kernels have equal counters. Some take
# another path for a few values, such as large arguments of a sine.
_LEAST_SHARE = 0.75


class Repetition:
    """A comparison of the counters of a call with those of the same call made again.

    A submission may prepare weights or try out kernels in the first of the two calls, so its second
    call may do less. In that case, a third call decides (`control`): its inputs have one number
    changed, so a submission that keeps outputs has to compute this one.

    Attributes:
        control: The third call; None as long as the second call has not done less than the first.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        """Prepare the comparison for a case with these calls; nothing is compared without a repeat.

        Runs with many zeros are not compared, since a kernel may skip zeros.
        """
        is_repeat = (call for call in calls if call.kind == "again" and call.run.is_plain)
        self.control: Call | None = None
        self._again = next(is_repeat, None)
        self._first: Mapping[str, int] = {}
        self._repeated: Mapping[str, int] = {}

    def includes(self, call: Call) -> bool:
        """Return whether the counters of a call are needed."""
        if self._again is None:
            return False
        is_first = call.kind == "first" and call.run == self._again.run
        return is_first or call in (self._again, self.control)

    def add(self, call: Call, counted: Totals) -> tuple[Finding, ...]:
        """Store the counters of one of the calls; return a finding if an output was kept.

        Args:
            call: A call for which `includes` returns True.
            counted: The counters of all kernels of the call.
        """
        counters = _compared(counted)
        if call == self.control:
            return self._findings(counters)
        if call != self._again:
            self._first = counters
        elif _less(counters, self._first):
            self._repeated = counters
            self.control = Call(f"{call.name}, then touched", call.run, "touched")
        return ()

    def _findings(self, counters: Mapping[str, int]) -> tuple[Finding, ...]:
        less = _less(self._repeated, counters)
        if less is None:
            return ()
        message = (
            f"when the same inputs were given again, its kernels made {self._repeated[less]:,} "
            f"{less}; with one number changed, {counters[less]:,}"
        )
        return (Finding(CHECK, message),)


def _compared(counted: Totals) -> Mapping[str, int]:
    """Return the counters that a kept output may reduce, by the words of the message."""
    return {
        "floating-point operations": counted.flop,
        "loads and stores": counted.requests,
        "accesses to sectors": counted.sectors,
        "launches": counted.launches,
    }


def _less(repeated: Mapping[str, int], other: Mapping[str, int]) -> str | None:
    """Return the first counter that is much smaller in `repeated`, or None."""
    return next((name for name, n in repeated.items() if n < _LEAST_SHARE * other[name]), None)
