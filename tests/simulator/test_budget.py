"""Budgets of launches: the work in thread-instructions, and the memory that kernels touch."""

from __future__ import annotations

import numpy as np
import pytest

from harness.simulator.execution.machine import Machine
from harness.simulator.hardware.budget import Budget, OverBudget, resident_bytes
from harness.simulator.hardware.memory import Memory
from tests.simulator.support import int32, pointer

pytestmark = pytest.mark.simulator_only

LOOP = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 rounds)
{
  .reg .pred %p; .reg .b32 %i, %n, %t; .reg .b64 %a, %o;
  ld.param.u32 %n, [rounds];
  ld.param.u64 %a, [out];
  mov.u32 %i, 0;
AGAIN:
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, %n;
  @%p bra AGAIN;
  mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 4;
  add.s64 %a, %a, %o;
  st.global.u32 [%a], %i;
  ret;
}
"""


@pytest.fixture
def machine(memory: Memory) -> Machine:
    """Return a simulated machine with its own budget."""
    return Machine(memory)


def launch(machine: Machine, rounds: int, limit: int | None) -> int:
    """Run a kernel that loops `rounds` times, and return its work in thread-instructions.

    The budget is `limit` thread-instructions, or unlimited for None.
    """
    loaded = machine.load(LOOP)
    out = machine.memory.allocate(32 * 4)
    machine.budget = Budget(limit)
    machine.launch(loaded, "loop", (1, 1, 1), (32, 1, 1), 0, [pointer(out), int32(rounds)])
    written = np.frombuffer(machine.memory.read(out, 32 * 4), np.int32)
    assert (written == rounds).all()
    return machine.budget.spent


def test_launch_within_its_budget_ends(machine: Machine) -> None:
    """A launch within its budget ends, and its work is the same each time.

    Twice the loop's rounds take about twice the work.
    """
    took = launch(machine, 2000, None)
    assert launch(machine, 2000, took) == took
    assert 1.5 * (took - (1 << 20)) < launch(machine, 4000, None) - (1 << 20)


def test_launch_beyond_its_budget_stops(machine: Machine) -> None:
    """A launch that would run for hours is stopped before it exceeds ten times its budget."""
    with pytest.raises(OverBudget, match="G thread-instructions") as stopped:
        launch(machine, 2**31 - 1, 10**7)
    assert 10**7 < stopped.value.work < 10**8


def test_many_launches_share_one_budget(machine: Machine) -> None:
    """The work of all launches is summed: many small launches together exceed the budget."""
    loaded = machine.load(LOOP)
    out = machine.memory.allocate(32 * 4)
    machine.budget = Budget(10**7)

    def launch_often() -> None:
        for _ in range(1000):
            machine.launch(loaded, "loop", (1, 1, 1), (32, 1, 1), 0, [pointer(out), int32(1)])

    with pytest.raises(OverBudget):
        launch_often()
    assert machine.budget.spent <= 10**7 + (1 << 20)


def test_memory_that_is_touched_is_limited(machine: Machine) -> None:
    """A launch stops when the process's resident memory exceeds the budget's limit.

    Sparse memory becomes resident when it is touched, so a kernel could fill the host's memory.
    """
    budget = Budget(most_resident=resident_bytes() + (1 << 40))
    budget.check(0)
    budget.most_resident = resident_bytes() - 1
    with pytest.raises(OverBudget, match="more memory touched"):
        budget.check(0)
    loaded = machine.load(LOOP)
    out = machine.memory.allocate(32 * 4)
    machine.budget = budget
    with pytest.raises(OverBudget, match="more memory touched"):
        machine.launch(loaded, "loop", (1, 1, 1), (32, 1, 1), 0, [pointer(out), int32(1)])
