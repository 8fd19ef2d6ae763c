"""Keep every multiprocessor of a GPU busy for a while, so that nothing else can run on it."""

from __future__ import annotations

import torch

from harness.gpu.driver import Driver

KERNEL = "hold"
"""What the kernel is called."""

_THREADS = 1024

# Threads that fill a multiprocessor leave no room for a block of any other kernel, whatever its
# stream. nanosleep keeps them from heating the chip.
_PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry hold(.param .u64 cycles)
{
    .reg .u64 %asked, %start, %now;
    .reg .pred %early;
    ld.param.u64 %asked, [cycles];
    mov.u64 %start, %clock64;
again:
    nanosleep.u32 200;
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %early, %now, %asked;
    @%early bra again;
    ret;
}
"""


class Hold:
    """A kernel that does nothing, everywhere at once."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._kernel = driver.kernel(_PTX, KERNEL.encode())
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        blocks_each = properties.max_threads_per_multi_processor // _THREADS
        self._blocks = blocks_each * properties.multi_processor_count

    def launch(self, cycles: int) -> None:
        """Enqueue it on torch's current stream, for so many cycles of a multiprocessor's clock.

        Raises:
            harness.gpu.driver.DriverError: The driver refuses.
        """
        self._driver.launch(self._kernel, self._blocks, _THREADS, cycles)
