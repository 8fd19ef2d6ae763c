"""Measure how fast the simulator runs, and which work takes the time.

    python benchmarks/simulator_speed.py

The program runs a naive transposed convolution with 32- and 64-bit indices, and a tiled matrix
product, with all checks on. It prints:

- millions of thread-instructions a second on one core and on all, for 64k threads and more;
- microseconds for each executed instruction, for fewer than 4k threads;
- the PTX instructions that take most of the time.

A thread-instruction is an instruction executed by one thread.
"""

from __future__ import annotations

import ctypes
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tabulate import tabulate

from harness.compiler.cache import Cache
from harness.compiler.toolchain import find_cuda_compiler
from harness.simulator.execution.codegen import BlockCompiler, Writer
from harness.simulator.execution.launch import Kernel, LaunchResult
from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.execution.prepared import Prepared
from harness.simulator.hardware.memory import Memory
from harness.simulator.lowering.program import Order, Program, Step
from harness.simulator.native.bindings import Native
from harness.simulator.native.library import build_machine_library
from harness.system.processors import usable_cores

REPEATS = 9
"""Number of launches; the fastest counts, because other work on the machine only slows one down."""
SLOWEST = 8
"""Number of instructions in a table."""

SOURCE = """
#include <cstdint>
template <typename I>
__global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* y, I n, I in,
                     I out, I length, I out_length, I kernel, I stride, I padding, I dilation) {
  I index = blockIdx.x * (I)blockDim.x + threadIdx.x;
  if (index >= n * out * out_length) return;
  I position = index % out_length, o = index / out_length % out, b = index / out_length / out;
  float sum = 0;
  for (I i = 0; i < in; i++)
    for (I k = 0; k < kernel; k++) {
      I t = position + padding - k * dilation;
      if (t < 0 || t % stride) continue;
      t /= stride;
      if (t < length) sum += x[(b * in + i) * length + t] * w[(i * out + o) * kernel + k];
    }
  y[index] = sum;
}
template __global__ void conv<int>(const float*, const float*, float*, int, int, int, int, int,
                                   int, int, int, int);
template __global__ void conv<int64_t>(const float*, const float*, float*, int64_t, int64_t,
                                       int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                                       int64_t);

__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float rows[16][16], columns[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int tile = 0; tile < n; tile += 16) {
    rows[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
    columns[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; k++) sum += rows[threadIdx.y][k] * columns[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""

Extent = tuple[int, int, int]


@dataclass(frozen=True)
class Load:
    """A kernel launch to measure.

    Attributes:
        title: Title in the printed tables.
        kernel: Part of the kernel's mangled name.
        grid: Blocks of the grid.
        block: Threads of a block.
        arrays: Lengths of the float arrays, whose addresses are the first arguments.
        numbers: The other arguments, as bytes.
    """

    title: str
    kernel: str
    grid: Extent
    block: Extent
    arrays: Sequence[int]
    numbers: Sequence[bytes]

    @property
    def threads(self) -> int:
        """Number of threads in the whole grid."""
        return int(np.prod(self.grid) * np.prod(self.block))


def convolution(bits: int, length: int, stride: int) -> Load:
    """Return a launch of a transposed convolution with 8 channels in and out and 3 taps.

    `bits` is the width of its indices, 32 or 64.
    """
    channels, taps = 8, 3
    out_length = (length - 1) * stride + taps
    threads = channels * out_length
    numbers = (1, channels, channels, length, out_length, taps, stride, 0, 1)
    return Load(
        f"convolution, {bits}-bit indices" + (", stride 2" if stride == 2 else ""),
        "convI" + {32: "i", 64: "l"}[bits],
        (-(-threads // 256), 1, 1),
        (256, 1, 1),
        (channels * length, channels * channels * taps, threads),
        [struct.pack({32: "<i", 64: "<q"}[bits], n) for n in numbers],
    )


def product(size: int) -> Load:
    """Return a launch of a tiled product of size x size matrices."""
    grid = (size // 16, size // 16, 1)
    numbers = [struct.pack("<i", size)]
    return Load("tiled matrix product", "matmul", grid, (16, 16, 1), [size * size] * 3, numbers)


MANY = (
    convolution(32, 8192, 1),
    convolution(64, 8192, 1),
    convolution(32, 4096, 2),
    convolution(32, 32768, 1),
    product(256),
)
FEW = (convolution(32, 256, 1), convolution(64, 256, 1), product(48))


@dataclass
class Clock:
    """Total nanoseconds and number of executions of each step of a kernel, by the step's name."""

    spent: dict[str, int] = field(default_factory=dict)
    executions: dict[str, int] = field(default_factory=dict)
    last: int = 0

    def start(self) -> None:
        """Record that a block of generated code starts."""
        self.last = time.perf_counter_ns()

    def tick(self, name: str) -> None:
        """Record that the step `name` has ended."""
        now = time.perf_counter_ns()
        self.spent[name] = self.spent.get(name, 0) + now - self.last
        self.executions[name] = self.executions.get(name, 0) + 1
        self.last = time.perf_counter_ns()


class TimedCompiler(BlockCompiler):
    """A compiler of kernels to Python whose code reports the end of every step to a clock."""

    def __init__(self, program: Program, native: Native, clock: Clock) -> None:
        super().__init__(program, native)
        self._start, self._tick = self.function(clock.start), self.function(clock.tick)

    def write(self, step: Step, writer: Writer) -> None:
        """Write the code of a step, and then a call of the clock."""
        if not writer.lines:
            writer.lines.append(f"{self._start}()")
        super().write(step, writer)
        writer.lines.append(f"{self._tick}({_name(step)!r})")


def _name(step: Step) -> str:
    if isinstance(step, Order) or step.instruction is None:
        return "other"
    return step.instruction.name


class Bench:
    """The simulator's library, its device memory, and the PTX of the kernels that are measured."""

    def __init__(self, folder: Path) -> None:
        library = build_machine_library(Cache(folder))
        source, target = folder / "speed.cu", folder / "speed.ptx"
        source.write_text(SOURCE)
        nvcc = [str(find_cuda_compiler().nvcc), "-ptx", "-lineinfo", "-arch=compute_90"]
        subprocess.run([*nvcc, str(source), "-o", str(target)], check=True)
        self.memory = Memory(ctypes.CDLL(str(library)))
        self._ptx = target.read_text()

    def launcher(
        self, load: Load, clock: Clock | None = None, cores: int = 1
    ) -> Callable[[], LaunchResult]:
        """Return a function that launches a load's kernel once.

        If a clock is given, it measures every step of the kernel.
        """
        machine = Machine(self.memory, cores=cores)
        module = machine.load(self._ptx)
        (name,) = (n for n in module.kernels if load.kernel in n)
        if clock:
            self._instrument(machine, module, name, clock)
        rng = np.random.default_rng(0)
        arguments = []
        for length in load.arrays:
            address = self.memory.allocate(4 * length)
            self.memory.write(address, rng.standard_normal(length, np.float32).tobytes())
            arguments.append(struct.pack("<Q", address))
        arguments += load.numbers
        return lambda: machine.launch(module, name, load.grid, load.block, 0, arguments)

    def _instrument(self, machine: Machine, module: LoadedModule, name: str, clock: Clock) -> None:
        program = machine.prepare(module, name).prepared.compiler.program
        compiler = TimedCompiler(program, Native(self.memory.library), clock)
        module.prepared[name] = Kernel(Prepared(compiler))


def seconds_of(launches: Sequence[Callable[[], LaunchResult]]) -> list[list[float]]:
    """Return, for each launch function, its times in seconds.

    The functions take turns. Their first two calls are not timed, because they compile.
    """
    times: list[list[float]] = [[] for _ in launches]
    for turn in range(-2, REPEATS):
        for launch, found in zip(launches, times, strict=True):
            start = time.perf_counter()
            result = launch()
            if turn >= 0:
                found.append(time.perf_counter() - start)
            if result.findings:
                raise RuntimeError(result.findings[0].message)
    return times


def throughput(bench: Bench, cores: int) -> str:
    """Return a table of thread-instructions a second, for launches of many threads."""
    rows = []
    for load in MANY:
        one, all_cores = bench.launcher(load), bench.launcher(load, cores=cores)
        executed = one().thread_instructions
        single, several = map(min, seconds_of([one, all_cores]))
        rates = [f"{executed / seconds / 1e6:.0f}" for seconds in (single, several)]
        rows.append([load.title, load.threads, *rates, f"{single / several:.2f}"])
    heads = ["million thread-instructions/s", "threads", "one core", f"{cores} cores", "ratio"]
    return tabulate(rows, heads, disable_numparse=True, colalign=("left", *["right"] * 4))


def latency(bench: Bench) -> str:
    """Return a table of microseconds for each instruction, for launches of few threads."""
    rows = []
    for load in FEW:
        launch = bench.launcher(load)
        executed = launch().thread_instructions
        (times,) = seconds_of([launch])
        each = min(times) / (executed / load.threads) * 1e6
        rows.append([load.title, load.threads, f"{each:.2f}"])
    heads = ["microseconds for each instruction", "threads", "one core"]
    return tabulate(rows, heads, disable_numparse=True, colalign=("left", "right", "right"))


def breakdown(bench: Bench, load: Load) -> str:
    """Return a table of a launch's time: the slowest instructions, and the kinds of work.

    The times include the time that the clock itself takes.
    """
    clock = Clock()
    launch = bench.launcher(load, clock)
    for _ in range(2):
        launch()
    clock.spent.clear()
    clock.executions.clear()
    start = time.perf_counter_ns()
    for _ in range(REPEATS):
        launch()
    total = time.perf_counter_ns() - start
    rows = [
        _row(name, clock.executions[name] / REPEATS, spent, total)
        for name, spent in sorted(clock.spent.items(), key=lambda item: -item[1])[:SLOWEST]
    ]
    memory = sum(t for name, t in clock.spent.items() if name.split(".")[0] in _MEMORY)
    steps = sum(clock.spent.values())
    for name, spent in (
        ("computing, all", steps - memory),
        ("memory and its checks, all", memory),
        ("dispatch and scheduling", total - steps),
    ):
        rows.append([name, "", f"{spent / total:.1%}", ""])
    heads = [f"{load.title}, {load.threads} threads", "executions", "time", "us each"]
    return tabulate(rows, heads, disable_numparse=True, colalign=("left", *["right"] * 3))


_MEMORY = ("ld", "st", "atom", "red")


def _row(name: str, executions: float, spent: int, total: int) -> list[str]:
    each = spent / REPEATS / executions / 1e3
    return [name, f"{executions:.0f}", f"{spent / total:.1%}", f"{each:.2f}"]


def main() -> None:
    """Print the tables of throughput, of latency, and of where the time goes."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        print(throughput(bench, usable_cores()), "\n")
        print(latency(bench), "\n")
        for load in (MANY[0], MANY[-1], FEW[0]):
            print(breakdown(bench, load), "\n")


if __name__ == "__main__":
    main()
