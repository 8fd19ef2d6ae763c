"""How fast the simulator runs: thread-instructions a second, and microseconds per instruction.

    python benchmarks/simulator_speed.py

prints, for a naive transposed convolution with 32- and 64-bit indices, the throughput with all
checks on for many threads, and the time per executed PTX instruction for a small grid.
"""

from __future__ import annotations

import ctypes
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from harness.build.toolchain import find_cuda_compiler
from harness.simulator.library import MACHINE_SOURCES
from harness.simulator.machine import LoadedModule, Machine
from harness.simulator.memory import Memory

THREADS = 256
REPEATS = 3

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
"""


def build(folder: Path) -> tuple[Memory, str]:
    """The simulator's library and the kernels' PTX."""
    library = folder / "libsimulator.so"
    compiler = ["cc", "-O2", "-shared", "-fPIC", *map(str, MACHINE_SOURCES)]
    subprocess.run([*compiler, "-lm", "-o", str(library)], check=True)
    (folder / "conv.cu").write_text(SOURCE)
    nvcc = find_cuda_compiler().nvcc
    target = folder / "conv.ptx"
    flags = ["-ptx", "-lineinfo", "-arch=compute_90"]
    subprocess.run([nvcc, *flags, str(folder / "conv.cu"), "-o", str(target)], check=True)
    return Memory(ctypes.CDLL(str(library))), target.read_text()


def measure(machine: Machine, module: LoadedModule, kernel: str, length: int, stride: int) -> None:
    """Runs one shape and prints its figures."""
    batch, channels, out, taps = 1, 8, 8, 3
    out_length = (length - 1) * stride + taps
    memory = machine.memory
    sizes = (batch * channels * length, channels * out * taps, batch * out * out_length)
    addresses = [memory.allocate(4 * size) for size in sizes]
    rng = np.random.default_rng(0)
    for address, size in zip(addresses[:2], sizes[:2], strict=True):
        memory.write(address, rng.standard_normal(size, np.float32).tobytes())
    pack = "<i" if kernel.startswith("_Z4convIi") else "<q"
    numbers = (batch, channels, out, length, out_length, taps, stride, 0, 1)
    arguments = [struct.pack("<Q", a) for a in addresses]
    arguments += [struct.pack(pack, n) for n in numbers]
    threads = sizes[2]
    grid = (-(-threads // THREADS), 1, 1)
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        result = machine.launch(module, kernel, grid, (THREADS, 1, 1), 0, arguments)
        seconds.append(time.perf_counter() - start)
    best = min(seconds[1:])
    executed = result.thread_instructions
    per_thread = executed / threads
    index = "32-bit" if pack == "<i" else "64-bit"
    print(
        f"{index} indices, stride {stride}, {threads:7} threads: "
        f"{executed / best / 1e6:6.0f} million thread-instructions/s, "
        f"{best / per_thread * 1e6:7.2f} us per instruction "
        f"(first launch {seconds[0] * 1e3:.0f} ms)"
    )


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as folder:
        memory, ptx = build(Path(folder))
        for length, stride in ((256, 1), (8192, 1), (4096, 2), (32768, 1)):
            machine = Machine(memory)
            module = machine.load(ptx)
            for kernel in sorted(module.kernels):
                measure(machine, module, kernel, length, stride)


if __name__ == "__main__":
    main()
