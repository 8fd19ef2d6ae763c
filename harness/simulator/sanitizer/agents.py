"""Part of race detection: how mbarriers and groups of wgmmas order accesses of memory.

Each mbarrier has a vector clock. An arrival merges the clocks of the arriving warps into this
vector clock. A wait merges the vector clock of the completed phase into the clocks of the waiting
warps. The waiting warps are then ordered after every access that precedes the arrivals.

An agent is an asynchronous unit: the copies of one mbarrier, or the wgmmas of one warpgroup. The
clock of an agent counts phases of the mbarrier or groups of wgmmas. A warp is ordered after work of
an agent only if it has waited for the phase or group.
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
    """A vector clock of one block, which an mbarrier or warpgroup passes from warp to warp.

    A warp that receives the vector clock is ordered after all accesses up to the clocks in it.

    Attributes:
        warps: A clock for each warp of the block.
        agents: A clock for each agent (asynchronous unit) of the block.
        reach: The latest fences that the warps have executed or acquired, as in
            `layout.races.Reach`.
    """

    warps: Array
    agents: Array
    reach: Array

    def copy(self) -> _Knowledge:
        """Return a copy of this vector clock that shares no arrays with it."""
        return _Knowledge(self.warps.copy(), self.agents.copy(), self.reach.copy())


@dataclass
class _Barrier:
    """The state of an mbarrier for race detection.

    Attributes:
        agent: Number of the mbarrier's agent: the asynchronous unit that does the copies which the
            mbarrier counts.
        clock: The agent's clock in the current phase.
        arriving: Vector clock of the warps that have arrived so far, in all phases.
        complete: Vector clock of the last complete phase; waiting warps merge it into their own.
    """

    agent: int
    clock: int
    arriving: _Knowledge
    complete: _Knowledge


@dataclass
class _Warpgroup:
    """The state of a warpgroup for race detection.

    Attributes:
        agent: Number of the warpgroup's agent: the asynchronous unit that executes its wgmmas.
        started: Vector clock of the warpgroup's warps when they last started a wgmma.
    """

    agent: int
    started: _Knowledge


class Agents:
    """The mbarriers and warpgroups of a chunk (blocks that are simulated together).

    The class implements the protocol `actions.ordering.Ordering` for race detection. An mbarrier
    has one vector clock for all its phases. A wait for one phase therefore counts as a wait for all
    earlier phases. A warpgroup has one vector clock for all its groups of wgmmas. A wait for one
    group therefore also includes accesses before the start of later groups. Two accesses may thus
    seem ordered although they are not, so a race may be missed. No race is reported that does not
    exist.
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
        """Remove all mbarriers and warpgroups, before the next blocks are simulated."""
        self._barriers, self._warpgroups, self._used = {}, {}, {}
        self._groups[...] = 0

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Merge the clocks of the arriving threads' warps into the mbarrier's vector clock.

        Args:
            block: Index of the block among the blocks that are simulated together.
            barrier: Address of the mbarrier in the block's shared memory.
            lanes: The arriving threads, by their numbers among those simulated together.
        """
        self._hand_over(self._warps(lanes), self._barrier(block, barrier).arriving)

    def completed(self, block: int, barrier: int) -> None:
        """End a phase of an mbarrier: order later waits after the phase's arrivals and copies.

        Args:
            block: Index of the block among the blocks that are simulated together.
            barrier: Address of the mbarrier in the block's shared memory.
        """
        state = self._barrier(block, barrier)
        state.complete = state.arriving.copy()
        state.complete.agents[state.agent] = state.clock
        state.clock += 1
        self._reached(state.clock)

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Record that threads have waited for the mbarrier's last complete phase.

        Their warps are then ordered after the arrivals and copies of this phase.

        Args:
            block: Index of the block among the blocks that are simulated together.
            barrier: Address of the mbarrier in the block's shared memory.
            lanes: The waiting threads, by their numbers among those simulated together.
        """
        self._take_over(self._warps(lanes), self._barrier(block, barrier).complete)

    def counted_by(self, block: int, barrier: int) -> Agent:
        """Return the agent (asynchronous unit) that does the copies of an mbarrier's current phase.

        Args:
            block: Index of the block among the blocks that are simulated together.
            barrier: Address of the mbarrier in the block's shared memory.
        """
        state = self._barrier(block, barrier)
        return Agent(state.agent, state.clock)

    def multiplied(self, lanes: Lanes) -> Agent:
        """Record that a warpgroup starts a wgmma.

        Return the warpgroup's agent: the asynchronous unit that reads the wgmma's matrices from
        shared memory.
        """
        warps = self._warps(lanes)
        group = self._warpgroup(int(lanes[0]))
        self._hand_over(warps, group.started)
        return Agent(group.agent, self._clocks.first + int(self._groups[warps[0]]))

    def committed(self, lanes: Lanes) -> None:
        """Record that threads close their open group of wgmmas (`wgmma.commit_group`)."""
        self._groups[self._warps(lanes)] += 1
        self._reached(self._clocks.first + int(self._groups.max()))

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """Record that threads have waited for wgmmas of their warpgroup (`wgmma.wait_group`).

        Later accesses of the threads are then ordered after these wgmmas.

        Args:
            lanes: The threads, by their numbers among those simulated together.
            groups_left: How many of the most recent groups of wgmmas may still be unfinished.
        """
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
        """Return the number of the first thread of the warpgroup that contains thread `lane`.

        Threads are numbered within the chunk (blocks that are simulated together).
        """
        thread = lane % self._clocks.threads
        return lane - thread % _WARPGROUP

    def _reached(self, clock: int) -> None:
        self._clocks.agents_latest = max(self._clocks.agents_latest, clock)

    def _hand_over(self, warps: Warps, to: _Knowledge) -> None:
        """Merge the vector clocks of warps into `to`, and advance the warps' own clocks.

        `to` then includes the warps' accesses so far. Later accesses have a later clock, so `to`
        does not include them.
        """
        clocks = self._clocks
        own = warps % clocks.warps
        np.maximum(to.warps, clocks.seen[warps].max(0), out=to.warps)
        to.warps[own] = np.maximum(to.warps[own], clocks.now[warps])
        np.maximum(to.agents, clocks.agents_seen[warps].max(0), out=to.agents)
        if clocks.has_flags:
            np.maximum(to.reach, clocks.reach[warps].max(0), out=to.reach)
        clocks.now[warps] += np.uint32(1)

    def _take_over(self, warps: Warps, what: _Knowledge) -> None:
        """Merge the vector clock `what` into the vector clocks of warps."""
        clocks = self._clocks
        clocks.seen[warps] = np.maximum(clocks.seen[warps], what.warps)
        clocks.agents_seen[warps] = np.maximum(clocks.agents_seen[warps], what.agents)
        if clocks.has_flags:
            clocks.reach[warps] = np.maximum(clocks.reach[warps], what.reach)
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
        return _Knowledge(
            np.zeros(clocks.warps, np.uint32),
            np.zeros(clocks.agents, np.uint32),
            np.zeros(clocks.reach.shape[1], np.uint32),
        )

    def _new_agent(self, block: int) -> int:
        """Return the number of a new agent (asynchronous unit) of a block.

        If the vector clocks have no element for the new agent, all of them are enlarged.
        """
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
