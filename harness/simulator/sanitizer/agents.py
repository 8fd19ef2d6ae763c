"""Ordering by mbarriers and groups of wgmmas, as vector clocks on top of `Clocks`.

An arrival hands the clocks of the arriving warps to the mbarrier. A wait takes the clocks of the
completed phase over into the waiting warps. So a warp is ordered after everything that the arriving
warps did or had seen. Asynchronous work has an agent with a clock of its own, which counts phases
or groups; a warp sees that clock only by waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.simulator.actions.ordering import Agent, Lanes
from harness.simulator.hardware.geometry import WARP
from harness.simulator.sanitizer.clocks import Array, Clocks

_WARPGROUP = 4 * WARP
Warps = npt.NDArray[np.intp]


@dataclass
class _Knowledge:
    """A vector clock that is handed over.

    Attributes:
        warps: For each warp of a block, the clock up to which its accesses are included.
        agents: For each agent of the block, the clock up to which its accesses are included.
    """

    warps: Array
    agents: Array

    def copy(self) -> _Knowledge:
        """Return an independent copy."""
        return _Knowledge(self.warps.copy(), self.agents.copy())


@dataclass
class _Barrier:
    """The state of an mbarrier.

    Attributes:
        agent: The number of its agent, which does the copies that it counts.
        clock: The agent's clock in the current phase.
        arriving: The clocks of the warps that have arrived.
        complete: The clocks that a wait for the last complete phase takes over.
    """

    agent: int
    clock: int
    arriving: _Knowledge
    complete: _Knowledge


@dataclass
class _Warpgroup:
    """The state of a warpgroup.

    Attributes:
        agent: The number of its agent, which executes its wgmmas.
        started: The clocks of its warps when they started wgmmas.
    """

    agent: int
    started: _Knowledge


class Agents:
    """The `actions.ordering.Ordering` on the clocks of the blocks that run together.

    It keeps one vector clock for each mbarrier, and not one for each phase; likewise one for each
    warpgroup, and not one for each group of wgmmas. So arrivals for one phase stay included in the
    later phases. A wait for one group includes accesses before the start of later groups. This may
    treat too much as ordered, and so miss a race. It never reports a race that does not exist.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._barriers: dict[tuple[int, int], _Barrier] = {}
        self._warpgroups: dict[int, _Warpgroup] = {}
        self._used: dict[int, int] = {}
        """The number of agents that each block has."""
        self._groups = np.zeros(len(clocks.now), np.int64)
        """The number of groups of wgmmas that each warp has closed."""

    def begin(self) -> None:
        """Forget all mbarriers and warpgroups, because the next blocks begin."""
        self._barriers, self._warpgroups, self._used = {}, {}, {}
        self._groups[...] = 0

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Hand the clocks of the threads' warps to the mbarrier."""
        self._hand_over(self._warps(lanes), self._barrier(block, barrier).arriving)

    def completed(self, block: int, barrier: int) -> None:
        """Publish the clocks of this phase's arrivals and copies, and begin the next phase."""
        state = self._barrier(block, barrier)
        state.complete = state.arriving.copy()
        state.complete.agents[state.agent] = state.clock
        state.clock += 1
        self._reached(state.clock)

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Order the threads' warps after the mbarrier's last complete phase."""
        self._take_over(self._warps(lanes), self._barrier(block, barrier).complete)

    def counted_by(self, block: int, barrier: int) -> Agent:
        """Return the agent of the copies that the mbarrier's current phase counts."""
        state = self._barrier(block, barrier)
        return Agent(state.agent, state.clock)

    def multiplied(self, lanes: Lanes) -> Agent:
        """Record the start of a warpgroup's wgmma, and return the agent that reads its matrices."""
        warps = self._warps(lanes)
        group = self._warpgroup(int(lanes[0]))
        self._hand_over(warps, group.started)
        return Agent(group.agent, self._clocks.first + int(self._groups[warps[0]]))

    def committed(self, lanes: Lanes) -> None:
        """Close the warps' open group of wgmmas, which advances the agent's clock."""
        self._groups[self._warps(lanes)] += 1
        self._reached(self._clocks.first + int(self._groups.max()))

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """Order the warps after all their groups of wgmmas except the latest `groups_left`."""
        clocks = self._clocks
        warps, first = np.unique(clocks.warp_of[lanes].astype(np.intp), return_index=True)
        for warp, lane in zip(warps.tolist(), lanes[first].tolist(), strict=True):
            finished = int(self._groups[warp]) - groups_left
            group = self._warpgroups.get(self._leader(lane))
            if group and finished > 0:
                clock = clocks.first + finished - 1
                self._take_over(np.array([warp], np.intp), group.started)
                seen = clocks.agents_seen[warp]
                seen[group.agent] = max(int(seen[group.agent]), clock)

    def _warps(self, lanes: Lanes) -> Warps:
        return np.unique(self._clocks.warp_of[lanes]).astype(np.intp)

    def _leader(self, lane: int) -> int:
        """Return the first lane of a lane's warpgroup."""
        thread = lane % self._clocks.threads
        return lane - thread % _WARPGROUP

    def _reached(self, clock: int) -> None:
        self._clocks.agents_latest = max(self._clocks.agents_latest, clock)

    def _hand_over(self, warps: Warps, to: _Knowledge) -> None:
        """Merge the clocks of warps into a vector clock, and advance the warps' own clocks.

        The advance separates accesses before the hand-over from those after it.
        """
        clocks = self._clocks
        own = warps % clocks.warps
        np.maximum(to.warps, clocks.seen[warps].max(0), out=to.warps)
        to.warps[own] = np.maximum(to.warps[own], clocks.now[warps])
        np.maximum(to.agents, clocks.agents_seen[warps].max(0), out=to.agents)
        clocks.now[warps] += np.uint32(1)

    def _take_over(self, warps: Warps, what: _Knowledge) -> None:
        """Merge a vector clock into the clocks that warps have seen."""
        clocks = self._clocks
        clocks.seen[warps] = np.maximum(clocks.seen[warps], what.warps)
        clocks.agents_seen[warps] = np.maximum(clocks.agents_seen[warps], what.agents)
        # If a waiting warp has arrived itself, its lanes are ordered after each other's accesses
        # before that arrival.
        own = what.warps[warps % clocks.warps] + np.uint32(1)
        clocks.synced[warps] = np.maximum(clocks.synced[warps], own)
        clocks.diverge(warps)

    def _barrier(self, block: int, barrier: int) -> _Barrier:
        key = block, barrier
        if key not in self._barriers:
            agent = self._new_agent(block)
            nothing = self._nothing()
            state = _Barrier(agent, self._clocks.first, nothing, nothing.copy())
            self._barriers[key] = state
        return self._barriers[key]

    def _warpgroup(self, lane: int) -> _Warpgroup:
        leader = self._leader(lane)
        if leader not in self._warpgroups:
            agent = self._new_agent(lane // self._clocks.threads)
            self._warpgroups[leader] = _Warpgroup(agent, self._nothing())
        return self._warpgroups[leader]

    def _nothing(self) -> _Knowledge:
        clocks = self._clocks
        return _Knowledge(np.zeros(clocks.warps, np.uint32), np.zeros(clocks.agents, np.uint32))

    def _new_agent(self, block: int) -> int:
        """Return the number of a new agent of a block, with room for it in all vector clocks."""
        number = self._used.get(block, 0)
        self._used[block] = number + 1
        if number >= self._clocks.agents:
            before = self._clocks.agents
            self._clocks.add_agents()
            known = [k for b in self._barriers.values() for k in (b.arriving, b.complete)]
            for knowledge in (*known, *(g.started for g in self._warpgroups.values())):
                room = self._clocks.agents - before
                knowledge.agents = np.pad(knowledge.agents, (0, room))
        return number
