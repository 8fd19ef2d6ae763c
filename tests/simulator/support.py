"""Helpers of the simulator's tests: a machine with arrays in and out, and one-line instructions."""

from __future__ import annotations

import ctypes
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from harness.compiler.cache import Cache, default_root
from harness.compiler.toolchain import find_toolchain
from harness.simulator.execution.machine import LaunchResult, LoadedModule, Machine
from harness.simulator.native.library import Libraries, build_libraries
from harness.system import interpreter
from tests.simulator.gpu import GpuMachine
from tests.simulator.recorder import Recorder
from tests.support import run

Array = npt.NDArray[Any]

_HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"
_WIDTHS = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}
_FLOATS = {"f": {2: "b16", 4: "f32", 8: "f64"}}


@dataclass(frozen=True)
class Device:
    """A machine, with what tests need around it; `recorder` is told what they read back."""

    machine: Machine
    recorder: Recorder = field(default_factory=Recorder)

    def in_chunks_of(self, lanes: int) -> Device:
        """The same device, running so many threads together; a GPU has its own ways."""
        if isinstance(self.machine, Machine):
            return Device(Machine(self.machine.memory, chunk_lanes=lanes), self.recorder)
        return self

    def put(self, values: Array) -> int:
        """A copy of the array in device memory; its address."""
        address = self.machine.memory.allocate(values.nbytes)
        self.machine.memory.write(address, np.ascontiguousarray(values).tobytes())
        return address

    def get(self, address: int, like: Array) -> Array:
        """The array at the address, of `like`'s type and shape."""
        data = self.machine.memory.read(address, like.nbytes)
        self.recorder.note(data)
        return np.frombuffer(data, like.dtype).reshape(like.shape)

    def launch(
        self,
        module: LoadedModule,
        kernel: str,
        arguments: Sequence[bytes],
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (32, 1, 1),
        dynamic_shared_bytes: int = 0,
        *,
        cooperative: bool = False,
    ) -> LaunchResult:
        """Launches the kernel whose mangled name contains `kernel`."""
        (name,) = (n for n in module.kernels if kernel in n)
        return self.machine.launch(
            module, name, grid, block, dynamic_shared_bytes, arguments, cooperative=cooperative
        )

    def encode_tiled(
        self, tensor: Sequence[object], *, interleave: int, swizzle: int, fill: int
    ) -> int:
        """Call cuTensorMapEncodeTiled, without promotion to L2; not 0 where it refuses."""
        mode, swizzling, filling = map(ctypes.c_uint32, (interleave, swizzle, fill))
        machine = cast(Machine | GpuMachine, self.machine)
        if isinstance(machine, GpuMachine):
            return machine.encode_tiled(*tensor, mode, swizzling, ctypes.c_uint32(0), filling)
        library = machine.memory.library
        return int(library.sim_encode_tiled(*tensor, mode, swizzling, ctypes.c_uint32(0), filling))

    def run(self, ptx: str, arguments: Sequence[bytes], **launch: Any) -> LaunchResult:
        """Launches the only kernel of a PTX text."""
        return self.launch(self.machine.load(ptx), "", arguments, **launch)

    def evaluate(self, instruction: str, *operands: Array, out: Array) -> Array:
        """Results of one instruction for many operands, one thread each.

        `instruction` names its operands %a, %b, %c, %e and its result %d; predicates among them are
        %pa, %pb. `out` tells the result's type and length.
        """
        count = len(out)
        addresses = [self.put(np.resize(o, count)) for o in operands]
        target = self.machine.memory.allocate(out.nbytes)
        ptx = _one_instruction(instruction, operands, out)
        arguments = [pointer(target), *map(pointer, addresses), struct.pack("<I", count)]
        threads = 64
        grid = (-(-count // threads), 1, 1)
        result = self.run(ptx, arguments, grid=grid, block=(threads, 1, 1))
        assert result.findings == ()
        return self.get(target, out)


def pointer(address: int) -> bytes:
    """A pointer as a kernel's argument."""
    return struct.pack("<Q", address)


def int32(value: int) -> bytes:
    """An int as a kernel's argument."""
    return struct.pack("<i", value)


def int64(value: int) -> bytes:
    """A 64-bit integer as a kernel's argument."""
    return struct.pack("<q", value)


def bits(values: Array) -> Array:
    """The array's bits, to compare NaNs and signed zeros too."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def _kind(values: Array) -> str:
    size = values.dtype.itemsize
    return _FLOATS.get(values.dtype.kind, _WIDTHS)[size]


def _one_instruction(instruction: str, operands: Sequence[Array], out: Array) -> str:
    names = [f"%{letter}" for letter in "abce"[: len(operands)]]
    declared = [f".param .u64 p{i}" for i in range(len(operands) + 1)] + [".param .u32 pn"]
    lines = [
        ".reg .pred %pd, %pa, %pb, %out;",
        ".reg .b32 %i, %n, %t, %u;",
        ".reg .b64 %at, %o;",
        f".reg .{_kind(out)} %d;",
        *(f".reg .{_kind(o)} {n};" for n, o in zip(names, operands, strict=True)),
        "mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x; mad.lo.s32 %i, %u, 64, %t;",
        "ld.param.u32 %n, [pn]; setp.ge.u32 %out, %i, %n; @%out bra DONE;",
    ]
    for number, (name, values) in enumerate(zip(names, operands, strict=True)):
        lines.append(f"ld.param.u64 %at, [p{number + 1}];")
        lines.append(f"mul.wide.u32 %o, %i, {values.dtype.itemsize}; add.s64 %at, %at, %o;")
        lines.append(f"ld.global.{_kind(values)} {name}, [%at];")
    lines.append(instruction if instruction.endswith("}") else f"{instruction};")
    lines.append(f"ld.param.u64 %at, [p0]; mul.wide.u32 %o, %i, {out.dtype.itemsize};")
    lines.append(f"add.s64 %at, %at, %o; st.global.{_kind(out)} [%at], %d;")
    body = "\n".join([*lines, "DONE: ret;"])
    return f"{_HEADER}.visible .entry test({', '.join(declared)})\n{{\n{body}\n}}\n"


def runtime_first(libraries: Libraries) -> dict[str, str]:
    """What lets a script find the simulator's CUDA runtime before that of a torch built for CUDA.

    A worker loads it before it imports torch; the tests' scripts import torch first.
    """
    # A path with a space in it would be two: the name alone has none.
    folders = [str(libraries.runtime.parent), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    return {
        "LD_PRELOAD": libraries.runtime.name,
        "LD_LIBRARY_PATH": ":".join(filter(None, folders)),
    }


def answers_of(script: str, source: Path, folder: Path) -> dict[str, object]:
    """What a script prints in the end, as JSON, that has a simulated device to itself.

    Its arguments are the libraries', as `Libraries` has them, and a CUDA source.
    """
    libraries = build_libraries(Cache(default_root()), find_toolchain())
    (folder / "script.py").write_text(script)
    paths = map(str, (*vars(libraries).values(), source))
    command = [interpreter.command("harness")[0], "script.py", *paths]
    done = run(command, folder, **runtime_first(libraries))
    assert done.status == 0, done.err
    answers: dict[str, object] = json.loads(done.out.splitlines()[-1])
    return answers
