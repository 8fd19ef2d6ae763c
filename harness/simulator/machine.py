"""Runs kernels: PTX in, changed memory and findings out.

All threads of a chunk of blocks run as one vector: every instruction is a few calls on arrays, one
element for each thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.simulator.calls import function_addresses
from harness.simulator.codegen import Compiler
from harness.simulator.counters import Counts, KernelCounters
from harness.simulator.errors import BarrierDeadlock, InvalidLaunch, UnmetCondition
from harness.simulator.faults import Faults
from harness.simulator.frame import (
    Extent,
    Frame,
    Geometry,
    Placement,
    PrivateMemory,
    special_registers,
)
from harness.simulator.memory import Memory
from harness.simulator.native import Native
from harness.simulator.parser import parse
from harness.simulator.printing import print_to_stderr, print_to_stdout
from harness.simulator.program import Access, Program, prepare
from harness.simulator.provenance import Traits
from harness.simulator.ptx import Function, Module, Symbol
from harness.simulator.race import RaceHistory, Races
from harness.simulator.residency import Place, blocks_at_once, run_chunks
from harness.simulator.sanitizer import Fault, Finding
from harness.simulator.scheduler import Prepared, Scheduler
from harness.simulator.synccheck import SyncChecks
from harness.simulator.team import Output, Team
from harness.simulator.watch import Watch

CHUNK_LANES = 16384
"""Threads that run together: their registers are to stay in the processor's cache."""
CHUNK_PRIVATE_BYTES = 64 << 20
"""Most shared and local memory of the blocks that run together."""
MAX_THREADS_PER_BLOCK = 1024
_GRID_BARRIER_BYTES = 32


@dataclass(frozen=True)
class LaunchResult:
    """What a kernel did, apart from its effect on memory.

    `thread_instructions` is how many PTX instructions were executed, summed over threads;
    instructions whose guard was false do not count, guarded branches always do.
    """

    findings: tuple[Finding, ...]
    thread_instructions: int
    counters: KernelCounters | None = None
    """Where the machine counts."""
    fault: Fault | None = None
    """What would have stopped the kernel on real hardware."""


@dataclass
class LoadedModule:
    """A module whose variables have been placed in device memory.

    Kernels are prepared when they are first launched, and kept.
    """

    module: Module
    addresses: Mapping[str, int]
    prepared: dict[str, Prepared] = field(default_factory=dict)
    frames: dict[str, Frame] = field(default_factory=dict)
    traits: dict[str, Traits] = field(default_factory=dict)
    teams: dict[str, Team] = field(default_factory=dict)

    @property
    def kernels(self) -> Mapping[str, Function]:
        """The kernels by (mangled) name."""
        return self.module.kernels

    def address_of(self, name: str) -> int:
        """Where the variable is; 0 when there is none of that name."""
        return self.addresses.get(name, 0)


class Machine:
    """Executes kernels on a device memory.

    Args:
        memory: the device's.
        chunk_lanes: most threads that run together.
        racecheck: whether races are looked for; they are no longer, in a launch, once blocks of
            one chunk have come to wait for blocks of another, whose accesses would be unordered.
            Kernels that use mbarriers are not looked at, and of no kernel what matrix and copy
            instructions read and write.
        counters: whether launches count what they do, which takes about twice the time.
        schedule: the order of blocks and warps, as `Placement` has it.
        print_out: takes what kernels print.
        print_error: takes their failed assertions.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        chunk_lanes: int = CHUNK_LANES,
        racecheck: bool = True,
        counters: bool = False,
        schedule: int = 0,
        print_out: Output = print_to_stdout,
        print_error: Output = print_to_stderr,
    ) -> None:
        self.memory = memory
        self.counters = counters
        self._racecheck = racecheck
        self._schedule = schedule
        self._history = RaceHistory()
        self._native = Native(memory.library)
        self._chunk_lanes = chunk_lanes
        self._print = print_out
        self._print_error = print_error
        self._grid_barrier = 0

    def load(self, ptx_text: str) -> LoadedModule:
        """Parses PTX and places its global and constant variables, initialised, in memory.

        Raises:
            PtxSyntaxError: the text cannot be read.
            OutOfDeviceMemory: the variables do not fit.
        """
        module = parse(ptx_text)
        placed = [v for v in module.variables.values() if v.space in ("global", "const") and v.size]
        addresses = {v.name: self.memory.allocate(v.size) for v in placed}
        known = {**function_addresses(module), **addresses}
        for variable in placed:
            data = b"".join(
                _element(value, known).to_bytes(variable.element, "little")
                for value in variable.values
            )
            # CUDA C++ initialises what has no initialiser with zeros.
            self.memory.write(addresses[variable.name], data.ljust(variable.size, b"\0"))
        return LoadedModule(module, addresses)

    def unload(self, loaded: LoadedModule) -> None:
        """Gives the memory of the module's variables back."""
        for address in loaded.addresses.values():
            self.memory.free(address)

    def prepare(self, loaded: LoadedModule, kernel_name: str) -> Prepared:
        """The kernel, ready to run; the second time at no cost.

        Raises:
            KeyError: the module has no such kernel.
            UnsupportedInstruction: the kernel needs what the machine has not got.
        """
        if kernel_name not in loaded.prepared:
            program = prepare(
                loaded.module,
                kernel_name,
                readable(kernel_name),
                loaded.addresses,
                self._native.on_arrays,
            )
            loaded.prepared[kernel_name] = Prepared(Compiler(program, self._native))
        return loaded.prepared[kernel_name]

    def launch(
        self,
        loaded: LoadedModule,
        kernel_name: str,
        grid: Extent,
        block: Extent,
        dynamic_shared_bytes: int,
        parameters: Sequence[bytes],
        *,
        cooperative: bool = False,
    ) -> LaunchResult:
        """Runs a kernel to its end; `parameters` are the raw bytes of its arguments.

        Blocks can wait at a barrier of the whole grid only in a cooperative launch.

        Faulty accesses do not stop it: what cannot be read gives poison, what cannot be written is
        dropped, and each is a finding.

        Raises:
            KeyError: the module has no such kernel.
            InvalidLaunch: grid, block or parameters are not possible.
            UnsupportedInstruction: the kernel needs what the machine has not got.
            KernelTrap: a thread executed `trap`.
            BarrierDeadlock, UnmetCondition: threads wait for what cannot happen.
        """
        prepared = self.prepare(loaded, kernel_name)
        program = prepared.compiler.program
        geometry = Geometry(grid, block)
        _check(geometry)
        arguments = _arguments(loaded.kernels[kernel_name], parameters)
        shared_bytes = program.dynamic_shared_offset + dynamic_shared_bytes
        if not dynamic_shared_bytes:
            shared_bytes = program.shared_bytes
        blocks = self._blocks_at_once(geometry, shared_bytes, program.local_bytes)
        lanes = blocks * geometry.threads
        frame = loaded.frames.get(kernel_name)
        if frame is None or frame.lanes != lanes:
            frame = loaded.frames[kernel_name] = Frame(lanes)
        placement = Placement(geometry, self._schedule, program.lanes_together)
        if self._racecheck and kernel_name not in loaded.traits:
            loaded.traits[kernel_name] = Traits.of(program)
        traits = loaded.traits.get(kernel_name)
        if traits and traits.has_mbarrier:
            # What mbarriers order is not followed.
            traits = None
        watch = self._watch(prepared, traits, placement, lanes, shared_bytes, arguments)
        places: list[Place] = []

        def place() -> Place:
            """Room for one chunk: only those that wait for others need more than one."""
            own = Frame(lanes) if places else frame
            private = PrivateMemory(
                lanes, geometry.threads, shared_bytes, program.local_bytes, arguments
            )
            others = places[0].faults if places else None
            faults = Faults(prepared.compiler, self.memory, placement, private, others)
            team = self._team(loaded, kernel_name, lanes, placement, private)
            private.spaces.profile = watch.counts and watch.counts.pointer
            if watch.races and not places:
                private.spaces.race = watch.races.pointer
            elif watch.races:
                # The clocks are those of one chunk; of several that run in turns they tell nothing.
                watch.races.stop()
                places[0].private.spaces.race = None
            scheduler = Scheduler(prepared, own, private, faults, watch, team)
            places.append(Place(own, private, faults, scheduler))
            return places[-1]

        def start(at: Place, chunk: range) -> bool:
            at.private.reset()
            uniform = _fill_specials(
                prepared,
                at.frame,
                placement,
                chunk.start,
                dynamic_shared_bytes,
                shared_bytes,
                grid_barrier,
            )
            return at.scheduler.run(chunk.start, len(chunk), uniform)

        chunks = [
            range(first, min(first + blocks, geometry.blocks))
            for first in range(0, geometry.blocks, blocks)
        ]
        grid_barrier = self._reset_grid_barrier(program) if cooperative else 0
        resident = blocks_at_once(geometry.threads, shared_bytes)
        sites = prepared.compiler.sites
        try:
            with np.errstate(all="ignore"):
                run_chunks(chunks, resident, place, start)
        except (BarrierDeadlock, UnmetCondition) as error:
            error.findings = _findings(places[0].faults, watch, sites)
            raise
        finally:
            if watch.races:
                watch.races.end()
        counters = watch.counts.result(sites, dynamic_shared_bytes) if watch.counts else None
        executed = sum(p.scheduler.thread_instructions for p in places)
        faults = places[0].faults
        return LaunchResult(_findings(faults, watch, sites), executed, counters, faults.fault)

    def _watch(
        self,
        prepared: Prepared,
        traits: Traits | None,
        placement: Placement,
        lanes: int,
        shared_bytes: int,
        arguments: bytes,
    ) -> Watch:
        program = prepared.compiler.program
        races = counts = None
        if traits:
            races = Races(
                self._native,
                self._history,
                self.memory,
                program.name,
                traits,
                placement,
                lanes,
                shared_bytes,
                arguments,
            )
        if self.counters:
            for block in program.blocks:
                for step in block.steps:
                    if isinstance(step, Access):
                        prepared.compiler.site(step)
            counts = Counts(program, placement.geometry, lanes, len(prepared.compiler.sites))
        return Watch(placement, SyncChecks(program.name, placement), races, counts)

    def _team(
        self,
        loaded: LoadedModule,
        kernel_name: str,
        lanes: int,
        placement: Placement,
        private: PrivateMemory,
    ) -> Team:
        known = loaded.teams.get(kernel_name)
        if known and known.lanes == lanes and known.geometry == placement.geometry:
            return known.for_launch(private)
        team = Team(lanes, placement, self.memory, private, self._print, self._print_error)
        loaded.teams[kernel_name] = team
        return team

    def _reset_grid_barrier(self, program: Program) -> int:
        """Where cooperative groups count the blocks that are at the grid's barrier; 0 unused."""
        if "%envreg1" not in program.specials:
            return 0
        self._grid_barrier = self._grid_barrier or self.memory.allocate(_GRID_BARRIER_BYTES)
        self.memory.write(self._grid_barrier, bytes(_GRID_BARRIER_BYTES))
        return self._grid_barrier

    def _blocks_at_once(self, geometry: Geometry, shared_bytes: int, local_bytes: int) -> int:
        per_block = shared_bytes + local_bytes * geometry.threads
        by_memory = CHUNK_PRIVATE_BYTES // per_block if per_block else geometry.blocks
        by_lanes = self._chunk_lanes // geometry.threads
        return max(1, min(geometry.blocks, by_memory, by_lanes))


def _findings(faults: Faults, watch: Watch, sites: Sequence[Access]) -> tuple[Finding, ...]:
    races = watch.races.findings(sites) if watch.races else ()
    return (*faults.findings, *races, *watch.sync.findings)


def _element(value: int | Symbol, addresses: Mapping[str, int]) -> int:
    """An initialiser's element as bits; the address of what is only declared is 0."""
    if isinstance(value, Symbol):
        return addresses.get(value.name, -value.offset) + value.offset
    return value % 2**64


def _check(geometry: Geometry) -> None:
    if min(*geometry.grid, *geometry.block) < 1 or geometry.threads > MAX_THREADS_PER_BLOCK:
        raise InvalidLaunch(f"grid {geometry.grid}, block {geometry.block}")


def _arguments(kernel: Function, parameters: Sequence[bytes]) -> bytes:
    if len(parameters) != len(kernel.parameters):
        raise InvalidLaunch(
            f"{readable(kernel.name)} takes {len(kernel.parameters)} arguments, "
            f"not {len(parameters)}"
        )
    data = bytearray(kernel.parameter_bytes)
    for parameter, value in zip(kernel.parameters, parameters, strict=True):
        if len(value) != parameter.size:
            raise InvalidLaunch(f"{parameter.name} has {parameter.size} bytes, not {len(value)}")
        data[parameter.offset : parameter.offset + parameter.size] = value
    return bytes(data)


def _fill_specials(
    prepared: Prepared,
    frame: Frame,
    placement: Placement,
    first_block: int,
    dynamic_bytes: int,
    total_bytes: int,
    grid_barrier: int,
) -> int:
    """Gives the special registers their values; returns those that are uniform, as bits."""
    program: Program = prepared.compiler.program
    slots = prepared.compiler.slots
    makers = special_registers(placement, first_block, frame.lanes, dynamic_bytes, total_bytes)
    makers["dynamic shared memory"] = lambda: np.array([program.dynamic_shared_offset], np.uint32)
    for name, half in (("%envreg1", grid_barrier >> 32), ("%envreg2", grid_barrier & 2**32 - 1)):
        makers[name] = lambda half=half: np.array([half], np.uint32)  # type: ignore[misc]
    uniform = 0
    for name, register in program.specials.items():
        slot = slots.number(register, f"b{program.register_bits[register]}")
        frame.extend(slots)
        values = makers[name]()
        if len(values) == 1:
            frame.uniform[slot][...] = values
            uniform |= 1 << register
        else:
            frame.varying[slot][...] = values
    return uniform


def readable(name: str) -> str:
    """The name in C++, where the mangled form is simple enough; else as it is."""
    nested = re.match(r"_ZN(?:\d|S)", name)
    match = re.match(r"_Z(\d+)", name)
    if nested or not match:
        parts = []
        rest = name[3:] if nested else ""
        while part := re.match(r"(\d+)", rest):
            length = int(part[1])
            start = part.end()
            parts.append(rest[start : start + length])
            rest = rest[start + length :]
        return "::".join(p for p in parts if not p.startswith("_GLOBAL__N")) or name
    start, length = match.end(), int(match[1])
    return name[start : start + length]
