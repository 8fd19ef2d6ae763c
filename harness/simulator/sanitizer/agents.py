"""Who waits for whom through mbarriers and groups of wgmmas: vector clocks on top of `Clocks`."""

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
    """What is handed over: up to when the accesses of a block's warps and agents are included."""

    warps: Array
    agents: Array

    def copy(self) -> _Knowledge:
        """The same, to keep."""
        return _Knowledge(self.warps.copy(), self.agents.copy())


@dataclass
class _Barrier:
    """An mbarrier: its agent, the clock of its phase, and what waiting for it will tell."""

    agent: int
    clock: int
    arriving: _Knowledge
    complete: _Knowledge


@dataclass
class _Warpgroup:
    """The agent of a warpgroup, and what its warps did and saw before they started wgmmas."""

    agent: int
    started: _Knowledge


class Agents:
    """`actions.ordering.Ordering` on the clocks of the blocks that run together.

    What arrived for one phase stays included in the later ones, and a wait for one group of wgmmas
    includes what was done before the later groups were started: too much may count as ordered here,
    never too little.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._barriers: dict[tuple[int, int], _Barrier] = {}
        self._warpgroups: dict[int, _Warpgroup] = {}
        self._used: dict[int, int] = {}
        """For each block, how many agents it has."""
        self._groups = np.zeros(len(clocks.now), np.int64)
        """For each warp, how many groups of wgmmas it has closed."""

    def begin(self) -> None:
        """The next blocks."""
        self._barriers, self._warpgroups, self._used = {}, {}, {}
        self._groups[...] = 0

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """The threads hand over, to whom waits for this phase, what they did and saw before."""
        self._hand_over(self._warps(lanes), self._barrier(block, barrier).arriving)

    def completed(self, block: int, barrier: int) -> None:
        """The mbarrier's phase is complete."""
        state = self._barrier(block, barrier)
        state.complete = state.arriving.copy()
        state.complete.agents[state.agent] = state.clock
        state.clock += 1
        self._reached(state.clock)

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """The threads have seen that the last phase is complete."""
        self._take_over(self._warps(lanes), self._barrier(block, barrier).complete)

    def counted_by(self, block: int, barrier: int) -> Agent:
        """Who does copies that the mbarrier's phase counts."""
        state = self._barrier(block, barrier)
        return Agent(state.agent, state.clock)

    def multiplied(self, lanes: Lanes) -> Agent:
        """A warpgroup starts a wgmma; who reads its matrices in shared memory."""
        warps = self._warps(lanes)
        group = self._warpgroup(int(lanes[0]))
        self._hand_over(warps, group.started)
        return Agent(group.agent, self._clocks.first + int(self._groups[warps[0]]))

    def committed(self, lanes: Lanes) -> None:
        """The threads close a group of wgmmas."""
        self._groups[self._warps(lanes)] += 1
        self._reached(self._clocks.first + int(self._groups.max()))

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """The threads have waited for all groups of wgmmas but the latest `groups_left`."""
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
        """The first lane of a lane's warpgroup."""
        thread = lane % self._clocks.threads
        return lane - thread % _WARPGROUP

    def _reached(self, clock: int) -> None:
        self._clocks.agents_latest = max(self._clocks.agents_latest, clock)

    def _hand_over(self, warps: Warps, to: _Knowledge) -> None:
        clocks = self._clocks
        own = warps % clocks.warps
        np.maximum(to.warps, clocks.seen[warps].max(0), out=to.warps)
        to.warps[own] = np.maximum(to.warps[own], clocks.now[warps])
        np.maximum(to.agents, clocks.agents_seen[warps].max(0), out=to.agents)
        clocks.now[warps] += np.uint32(1)

    def _take_over(self, warps: Warps, what: _Knowledge) -> None:
        clocks = self._clocks
        clocks.seen[warps] = np.maximum(clocks.seen[warps], what.warps)
        clocks.agents_seen[warps] = np.maximum(clocks.agents_seen[warps], what.agents)
        # Lanes of a warp that has arrived itself are ordered among each other.
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
