"""Races of random kernels, compared with a model that checks every pair of accesses.

The simulator remembers one writer and two readers of each cell of memory, with clocks (FastTrack).
The model keeps the whole history. It is too slow for real kernels, but simple enough to be checked
by reading.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from harness.simulator.execution.machine import Machine
from tests.simulator.support import Array, Device, pointer

pytestmark = pytest.mark.simulator_only

THREADS = 96
WORDS = 128
MOST_STEPS = 14


@dataclass(frozen=True)
class Access:
    """A step in which each thread from `first` to below `last` accesses one shared word.

    Thread t accesses word (factor * t + start) % modulus. The kinds are load, store, atomic and
    copy; a copy is a cp.async in its own group.
    """

    kind: str
    factor: int
    start: int
    modulus: int
    first: int
    last: int

    def word(self, thread: int) -> int:
        """Return the index of the shared word that the thread accesses."""
        return (self.factor * thread + self.start) % self.modulus

    def ptx(self, line: int) -> str:
        """Return the PTX of this step, as line `line` of the kernel's source."""
        action = {
            "load": "ld.shared.u32 %v, [%a];",
            "store": f"mad.lo.u32 %v, %t, 7, {1000 * line}; st.shared.u32 [%a], %v;",
            "atomic": "red.shared.add.u32 [%a], 1;",
            "copy": f"""mad.wide.u32 %g, %t, 4, %in;
                cp.async.ca.shared.global [%a], [%g + {4 * THREADS * line}], 4;
                cp.async.commit_group;""",
        }[self.kind]
        return f""".loc 1 {line} 0
        mad.lo.u32 %a, %t, {self.factor}, {self.start}; rem.u32 %a, %a, {self.modulus};
        shl.b32 %a, %a, 2;
        setp.lt.u32 %p, %t, {self.first}; @%p bra SKIP{line};
        setp.ge.u32 %p, %t, {self.last}; @%p bra SKIP{line};
        {action}
        SKIP{line}:"""


@dataclass(frozen=True)
class Order:
    """A step that orders accesses: a barrier, a wait, or an arrival.

    All threads take part in `barrier`, `warp` (a warp barrier) and `wait_group`. Only one warp
    takes part in `arrive` and `wait`, which use an mbarrier.

    Attributes:
        kind: The kind of step.
        number: Number of copy groups that `wait_group` may leave incomplete, or index of the
            mbarrier.
        warp: The warp that arrives or waits.
    """

    kind: str
    number: int = 0
    warp: int = 0

    def ptx(self, line: int) -> str:
        """Return the PTX of this step; `line` makes its labels unique."""
        if self.kind in ("barrier", "warp", "wait_group"):
            return {
                "barrier": "bar.sync 0;",
                "warp": "bar.warp.sync -1;",
                "wait_group": f"cp.async.wait_group {self.number};",
            }[self.kind]
        action = f"mbarrier.arrive.shared.b64 %s, [mbarriers + {8 * self.number}];"
        if self.kind == "wait":
            action = f"""AGAIN{line}:
            mbarrier.try_wait.parity.shared.b64 %p, [mbarriers + {8 * self.number}], 0;
            @!%p bra AGAIN{line};"""
        return f"""shr.u32 %a, %t, 5; setp.ne.u32 %p, %a, {self.warp}; @%p bra SKIP{line};
        {action}
        SKIP{line}:"""


Step = Access | Order


def random_steps(seed: int, kinds: list[str]) -> list[Step]:
    """Return a random list of steps whose kinds are among `kinds`."""
    rng = random.Random(seed)  # noqa: S311
    steps: list[Step] = []
    arrived = 0
    for _ in range(rng.randint(2, MOST_STEPS if "copy" in kinds else 7)):
        kind = rng.choice(kinds)
        if kind in ("barrier", "warp"):
            steps.append(Order(kind))
        elif kind == "wait_group":
            steps.append(Order(kind, rng.choice([0, 0, 1])))
        elif kind == "arrive":
            steps.append(Order(kind, arrived, rng.randrange(3)))
            arrived += 1
        elif kind == "wait":
            if arrived:
                steps.append(Order(kind, rng.randrange(arrived), rng.randrange(3)))
        else:
            limits = rng.choice([(0, THREADS), (0, THREADS), (0, 1), (32, 64), (5, 70)])
            shape = (
                rng.choice([1, 1, 3, 5]),
                rng.choice([0, 1, 32, 64, 31]),
                rng.choice([8, 96, 128]),
            )
            steps.append(Access(kind, *shape, *limits))
    return steps


def ptx(steps: list[Step]) -> str:
    """Return the PTX of a kernel that executes the steps; step i is line i + 1 of its source."""
    body = "\n".join(step.ptx(line) for line, step in enumerate(steps, 1))
    inits = "\n".join(
        f"mbarrier.init.shared.b64 [mbarriers + {8 * i}], 32;" for i in range(MOST_STEPS)
    )
    return f""".version 9.0
    .target sm_90
    .visible .entry test(.param .u64 source)
    {{
        .shared .align 4 .b8 room[{4 * WORDS}];
        .shared .align 8 .b8 mbarriers[{8 * MOST_STEPS}];
        .reg .pred %p; .reg .b32 %a, %t, %v; .reg .b64 %in, %g, %s;
        ld.param.u64 %in, [source];
        mov.u32 %t, %tid.x;
        setp.ne.u32 %p, %t, 0; @%p bra SKIP0;
        {inits}
        SKIP0: bar.sync 0;
        {body}
        ret;
    }}
    .file 1 "k.cu"
    """


@dataclass
class Done:
    """One thread's access in the model's history.

    Attributes:
        thread: Index of the thread.
        step: Number of the step in which the access begins.
        kind: The kind of access.
        knew: What `thread` knew when the access began. Element i is the number of steps of thread i
            that `thread` then knew to be complete.
        end: Number of the step by which the access is complete; None for a copy that no thread has
            waited for.
    """

    thread: int
    step: int
    kind: str
    knew: Array
    end: int | None

    def is_before(self, later: Done) -> bool:
        """Return whether this access happens before a later one.

        This access does if it was complete when the later one began, and the thread of the later
        access knew that.
        """
        if self.end is None:
            return False
        if self.thread == later.thread:
            return self.end <= later.step
        return bool(later.knew[self.thread] >= self.end)


def history(steps: list[Step]) -> dict[int, list[Done]]:
    """Return the accesses of each word, in the order in which threads in lockstep perform them.

    The function keeps a vector clock for each thread. Element j of thread i's clock is the number
    of steps of thread j that thread i knows to be complete. A barrier sets its threads' clocks to
    their maximum. An mbarrier passes the maximum over the arriving warp on to the waiting warp.
    """
    knows = np.zeros((THREADS, THREADS), np.int64)
    handed: dict[int, Array] = {}
    words: dict[int, list[Done]] = {}
    copies: dict[int, list[Done]] = {thread: [] for thread in range(THREADS)}
    warps = [slice(32 * w, 32 * w + 32) for w in range(THREADS // 32)]
    for step, what in enumerate(steps):
        # Each thread knows its own earlier steps.
        np.fill_diagonal(knows, step)
        if isinstance(what, Access):
            for thread in range(what.first, what.last):
                end = None if what.kind == "copy" else step + 1
                done = Done(thread, step, what.kind, knows[thread].copy(), end)
                words.setdefault(what.word(thread), []).append(done)
                if what.kind == "copy":
                    copies[thread].append(done)
        elif what.kind == "wait_group":
            for pending in copies.values():
                for done in pending[: len(pending) - what.number]:
                    done.end = done.end or step + 1
        elif what.kind == "barrier":
            knows[...] = knows.max(0)
        elif what.kind == "warp":
            for warp in warps:
                knows[warp] = knows[warp].max(0)
        elif what.kind == "arrive":
            handed[what.number] = knows[warps[what.warp]].max(0)
        else:
            warp = warps[what.warp]
            knows[warp] = np.maximum(knows[warp], handed[what.number])
    return words


def severities(steps: list[Step]) -> Iterator[str]:
    """Yield the severity, `error` or `warning`, of every race that the model finds."""
    for accesses in history(steps).values():
        for index, later in enumerate(accesses):
            for earlier in accesses[:index]:
                if earlier.kind == later.kind in ("load", "atomic"):
                    continue
                # A copy may write until the wait, so that even its own thread races with it.
                runs = earlier.kind == "copy" and (earlier.end is None or earlier.end > later.step)
                if earlier.thread == later.thread and not runs:
                    continue
                if runs or not earlier.is_before(later):
                    in_warp = earlier.thread // 32 == later.thread // 32
                    yield "warning" if in_warp and not runs else "error"


PLAIN = ["load", "store", "load", "store", "barrier", "warp", "atomic"]
ASYNCHRONOUS = [
    *["load", "store", "copy", "wait_group", "wait_group", "barrier", "barrier", "warp"],
    *["arrive", "arrive", "wait", "wait", "wait"],
]


@pytest.mark.parametrize("kinds", [PLAIN, ASYNCHRONOUS], ids=["plain", "asynchronous"])
@pytest.mark.parametrize("first_seed", range(0, 120, 40))
@pytest.mark.parametrize("schedule", [0, 7])
def test_races_are_found_exactly(
    device: Device, first_seed: int, schedule: int, kinds: list[str]
) -> None:
    """The simulator reports a race exactly if the model finds one, in two orders of threads.

    It reports a race of severity `error` exactly if the model finds a race of that severity.
    """
    machine = Machine(device.machine.memory, schedule=schedule)
    source = device.put(np.arange(THREADS * (MOST_STEPS + 2), dtype=np.uint32) + 10**6)
    for seed in range(first_seed, first_seed + 40):
        steps = random_steps(seed, kinds)
        arguments = [pointer(source)]
        result = Device(machine).run(ptx(steps), arguments, grid=(2, 1, 1), block=(THREADS, 1, 1))
        found = {f.severity for f in result.findings if f.check == "racecheck"}
        expected = set(severities(steps))
        assert ("error" in found) == ("error" in expected), (seed, steps)
        assert bool(found) == bool(expected), (seed, steps)
