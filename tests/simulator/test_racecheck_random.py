"""Races of random kernels, against every pair of accesses looked at one by one."""

import random
from dataclasses import dataclass

import pytest

from harness.simulator.machine import Machine
from tests.simulator.support import Device

pytestmark = pytest.mark.simulator_only

THREADS = 96
WORDS = 128


@dataclass(frozen=True)
class Access:
    """Threads `first` to `last` access word (factor * thread + start) % modulus."""

    kind: str
    factor: int
    start: int
    modulus: int
    first: int
    last: int

    def word(self, thread: int) -> int:
        """What the thread accesses."""
        return (self.factor * thread + self.start) % self.modulus

    def ptx(self, line: int) -> str:
        """The access as code that the PTX says comes from line `line`."""
        action = {
            "load": "ld.shared.u32 %v, [%a];",
            "store": f"mad.lo.u32 %v, %t, 7, {1000 * line}; st.shared.u32 [%a], %v;",
            "atomic": "red.shared.add.u32 [%a], 1;",
        }[self.kind]
        return f""".loc 1 {line} 0
        mad.lo.u32 %a, %t, {self.factor}, {self.start}; rem.u32 %a, %a, {self.modulus};
        shl.b32 %a, %a, 2;
        setp.lt.u32 %p, %t, {self.first}; @%p bra SKIP{line};
        setp.ge.u32 %p, %t, {self.last}; @%p bra SKIP{line};
        {action}
        SKIP{line}:"""


Step = Access | str


def random_steps(seed: int) -> list[Step]:
    rng = random.Random(seed)  # noqa: S311
    steps: list[Step] = []
    for _ in range(rng.randint(2, 7)):
        kind = rng.choice(["load", "store", "load", "store", "barrier", "warp", "atomic"])
        if kind in ("barrier", "warp"):
            steps.append(kind)
            continue
        limits = rng.choice([(0, THREADS), (0, THREADS), (0, 1), (32, 64), (5, 70)])
        shape = rng.choice([1, 1, 3, 5]), rng.choice([0, 1, 32, 64, 31]), rng.choice([8, 96, 128])
        steps.append(Access(kind, *shape, *limits))
    return steps


def ptx(steps: list[Step]) -> str:
    orders = {"barrier": "bar.sync 0;", "warp": "bar.warp.sync -1;"}
    body = "\n".join(
        step.ptx(line) if isinstance(step, Access) else orders[step]
        for line, step in enumerate(steps, 1)
    )
    return f""".version 9.0
    .target sm_90
    .visible .entry test()
    {{
        .shared .align 4 .b8 room[{4 * WORDS}];
        .reg .pred %p; .reg .b32 %a, %t, %v;
        mov.u32 %t, %tid.x;
        {body}
        ret;
    }}
    .file 1 "k.cu"
    """


def severities(steps: list[Step]) -> set[str]:
    """Of all races that the steps have."""
    found = set()
    epochs = []
    block = warp = 0
    for step in steps:
        if isinstance(step, Access):
            epochs.append((step, block, warp))
        else:
            block += step == "barrier"
            warp += 1
    for index, (one, block_one, warp_one) in enumerate(epochs):
        for two, block_two, warp_two in epochs[index:]:
            alike = one.kind == two.kind in ("load", "atomic")
            if alike or block_one != block_two:
                continue
            for t in range(one.first, one.last):
                for u in range(two.first, two.last):
                    if t == u or one.word(t) != two.word(u):
                        continue
                    if t // 32 != u // 32:
                        found.add("error")
                    elif warp_one == warp_two:
                        found.add("warning")
    return found


@pytest.mark.parametrize("first_seed", range(0, 120, 20))
@pytest.mark.parametrize("schedule", [0, 7])
def test_races_are_found_exactly(device: Device, first_seed: int, schedule: int) -> None:
    """A kernel with an error has one found, one without has none, in any order of threads."""
    machine = Machine(device.machine.memory, schedule=schedule)
    for seed in range(first_seed, first_seed + 20):
        steps = random_steps(seed)
        result = Device(machine).run(ptx(steps), [], grid=(2, 1, 1), block=(THREADS, 1, 1))
        found = {f.severity for f in result.findings if f.check == "racecheck"}
        expected = severities(steps)
        assert ("error" in found) == ("error" in expected), (seed, steps)
        assert bool(found) == bool(expected), (seed, steps)
