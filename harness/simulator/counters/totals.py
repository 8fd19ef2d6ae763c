"""Profiles of the kernels that one forward call of a submission launches, and their totals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.simulator.counters.counters import KernelCounters
from harness.simulator.hardware.resources import Occupancy, Resources, occupancy
from harness.simulator.ptx.space import Space


@dataclass(frozen=True)
class KernelProfile:
    """The profile of one kernel in one forward call.

    Attributes:
        counters: Counters, summed over all launches of the kernel.
        resources: Registers, shared memory and spills that ptxas reported; None if there is no
            report.
        occupancy: The theoretical occupancy that follows from the resources and the block size, or
            None if `resources` is None.
    """

    counters: KernelCounters
    resources: Resources | None
    occupancy: Occupancy | None


@dataclass(frozen=True)
class Totals:
    """The sums of the counters of all kernels of one forward call.

    They are exact and equal in every run.

    Attributes:
        launches: Number of launches.
        warp_instructions: PTX instructions executed, counted once for each warp.
        thread_instructions: PTX instructions executed, counted once for each thread.
        flop: Floating-point operations; a fused multiply-add counts as two.
        requests: Loads, stores, atomics and asynchronous copies in global memory, counted once for
            each warp. A bulk copy counts as one request for each 128 bytes.
        sectors: Number of 32-byte sectors that the requests touched.
        wavefronts: Number of passes that accesses of shared memory needed.
        ideal_wavefronts: The value of `wavefronts` without bank conflicts.
        local_bytes: Bytes read and written in local memory. The number includes the spills that
            ptxas reports, and assumes that every thread executes each spill store and load once.
        registers: The most registers of a thread among all kernels; None if ptxas reported none.
        occupancy: The lowest theoretical occupancy among all kernels, as a fraction of the warps
            that a multiprocessor can hold; None if ptxas reported no resources.
    """

    launches: int
    warp_instructions: int
    thread_instructions: int
    flop: int
    requests: int
    sectors: int
    wavefronts: int
    ideal_wavefronts: int
    local_bytes: int
    registers: int | None
    occupancy: float | None

    @property
    def sectors_per_request(self) -> float | None:
        """Mean number of 32-byte sectors per request to global memory; None if `requests` is 0."""
        return self.sectors / self.requests if self.requests else None

    @property
    def bank_conflicts(self) -> float | None:
        """Passes that accesses of shared memory need, divided by the number without bank conflicts.

        It is 1 without bank conflicts, and None if the kernels did not use shared memory.
        """
        return self.wavefronts / self.ideal_wavefronts if self.ideal_wavefronts else None


def kernel_profile(counters: KernelCounters, resources: Resources | None) -> KernelProfile:
    """Return a kernel's profile, with the occupancy that follows from its resources."""
    if resources is None:
        return KernelProfile(counters, None, None)
    shared = resources.shared_bytes + counters.dynamic_shared_bytes
    fitting = occupancy(resources.registers, shared, math.prod(counters.block))
    return KernelProfile(counters, resources, fitting)


def totals(kernels: Sequence[KernelProfile]) -> Totals:
    """Return the sums of the counters of all kernels of one forward call."""
    counters = [kernel.counters for kernel in kernels]
    accesses = [access for counted in counters for access in counted.accesses]
    in_global = [access for access in accesses if access.space == Space.GLOBAL]
    in_shared = [access for access in accesses if access.space == Space.SHARED]
    in_local = sum(access.nbytes for access in accesses if access.space == Space.LOCAL)
    return Totals(
        launches=sum(counted.launches for counted in counters),
        warp_instructions=sum(sum(counted.warp_instructions.values()) for counted in counters),
        thread_instructions=sum(sum(counted.thread_instructions.values()) for counted in counters),
        flop=sum(counted.flop for counted in counters),
        requests=sum(access.requests for access in in_global),
        sectors=sum(access.sectors for access in in_global),
        wavefronts=sum(access.wavefronts for access in in_shared),
        ideal_wavefronts=sum(access.ideal_wavefronts for access in in_shared),
        local_bytes=in_local + sum(map(_spilled_bytes, kernels)),
        registers=max((k.resources.registers for k in kernels if k.resources), default=None),
        occupancy=min((k.occupancy.fraction for k in kernels if k.occupancy), default=None),
    )


def _spilled_bytes(kernel: KernelProfile) -> int:
    if kernel.resources is None:
        return 0
    counters = kernel.counters
    threads = math.prod(counters.grid) * math.prod(counters.block) * counters.launches
    return threads * (kernel.resources.spill_store_bytes + kernel.resources.spill_load_bytes)
