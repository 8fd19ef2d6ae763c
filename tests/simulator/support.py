"""Helpers of the simulator's tests: a device for arrays, and kernels of one PTX instruction."""

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
    """A simulated device or a GPU, with helpers for arrays and launches.

    Attributes:
        machine: The simulated device, or a GPU.
        recorder: Receives every array that a test copies back from the device.
    """

    machine: Machine
    recorder: Recorder = field(default_factory=Recorder)

    def in_chunks_of(self, lanes: int) -> Device:
        """Return this device with at most `lanes` threads in a chunk.

        A chunk is a group of blocks that the simulator runs together. A GPU has no chunks, and is
        returned unchanged.
        """
        if isinstance(self.machine, Machine):
            return Device(Machine(self.machine.memory, chunk_lanes=lanes), self.recorder)
        return self

    def put(self, values: Array) -> int:
        """Copy an array to device memory and return its address."""
        address = self.machine.memory.allocate(values.nbytes)
        self.machine.memory.write(address, np.ascontiguousarray(values).tobytes())
        return address

    def get(self, address: int, like: Array) -> Array:
        """Copy an array with the dtype and shape of `like` from a device address to the host."""
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
        """Launch the only kernel of a module whose mangled name contains `kernel`."""
        (name,) = (n for n in module.kernels if kernel in n)
        return self.machine.launch(
            module, name, grid, block, dynamic_shared_bytes, arguments, cooperative=cooperative
        )

    def encode_tiled(
        self, tensor: Sequence[object], *, interleave: int, swizzle: int, fill: int
    ) -> int:
        """Call cuTensorMapEncodeTiled without L2 promotion; return its status, 0 on success.

        `tensor` has the arguments of that function from the first to the element strides.
        """
        mode, swizzling, filling = map(ctypes.c_uint32, (interleave, swizzle, fill))
        machine = cast(Machine | GpuMachine, self.machine)
        if isinstance(machine, GpuMachine):
            return machine.encode_tiled(*tensor, mode, swizzling, ctypes.c_uint32(0), filling)
        library = machine.memory.library
        return int(library.sim_encode_tiled(*tensor, mode, swizzling, ctypes.c_uint32(0), filling))

    def run(self, ptx: str, arguments: Sequence[bytes], **launch: Any) -> LaunchResult:
        """Load a PTX text that has one kernel, and launch this kernel."""
        return self.launch(self.machine.load(ptx), "", arguments, **launch)

    def evaluate(self, instruction: str, *operands: Array, out: Array) -> Array:
        """Return the results of one PTX instruction, computed by one thread for each element.

        `instruction` is PTX text. It reads the first four operands as %a, %b, %c and %e, and writes
        its result to %d. It may use the predicates %pa, %pb and %pd. `out` gives the result's dtype
        and length; shorter operands are repeated.
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
    """Return an address as the bytes of a 64-bit kernel argument."""
    return struct.pack("<Q", address)


def int32(value: int) -> bytes:
    """Return an integer as the bytes of a 32-bit kernel argument."""
    return struct.pack("<i", value)


def int64(value: int) -> bytes:
    """Return an integer as the bytes of a 64-bit kernel argument."""
    return struct.pack("<q", value)


def bits(values: Array) -> Array:
    """Return an array's bits as unsigned integers, to tell NaNs and signed zeros apart."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def _kind(values: Array) -> str:
    """Return the PTX type, such as `f32`, for the elements of an array."""
    size = values.dtype.itemsize
    return _FLOATS.get(values.dtype.kind, _WIDTHS)[size]


def _one_instruction(instruction: str, operands: Sequence[Array], out: Array) -> str:
    """Return PTX of a kernel that loads operands, executes an instruction and stores its result.

    `Device.evaluate` explains the names of the instruction's registers.
    """
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
    """Return environment variables that make a script load the simulator's CUDA runtime first.

    Without them, a CUDA build of torch would load NVIDIA's runtime when the script imports torch. A
    worker does not need them, because it loads the simulator's runtime before it imports torch.
    """
    # LD_PRELOAD is split at spaces. The name has none, unlike the path, which LD_LIBRARY_PATH has.
    folders = [str(libraries.runtime.parent), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    return {
        "LD_PRELOAD": libraries.runtime.name,
        "LD_LIBRARY_PATH": ":".join(filter(None, folders)),
    }


def answers_of(script: str, source: Path, folder: Path) -> dict[str, object]:
    """Run a Python script in a new process, and return the JSON on the last line of its output.

    The script's arguments are the paths of the simulator's libraries, in the order of `Libraries`,
    and then the path of a CUDA source. A script needs the libraries to make a simulated device.
    """
    libraries = build_libraries(Cache(default_root()), find_toolchain())
    (folder / "script.py").write_text(script)
    paths = map(str, (*vars(libraries).values(), source))
    command = [interpreter.command("harness")[0], "script.py", *paths]
    done = run(command, folder, **runtime_first(libraries))
    assert done.status == 0, done.err
    answers: dict[str, object] = json.loads(done.out.splitlines()[-1])
    return answers
