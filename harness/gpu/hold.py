"""Keep every multiprocessor of a GPU busy until what is to be timed is queued behind that."""

from __future__ import annotations

import ctypes

import torch

from harness.gpu.driver import Driver

_THREADS = 1024
# A host that waits for the device while it is held would wait for ever. Some 60 ms, in which
# hundreds of launches are queued.
_MOST_CYCLES = 100_000_000

# Threads that fill a multiprocessor leave no room for a block of any other kernel, whatever its
# stream. One thread of each looks, and sleeps between, so that the others do not heat the chip.
_PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry hold(.param .u64 flag, .param .u64 ticket, .param .u64 cycles)
{
    .reg .u64 %flag, %ticket, %seen, %asked, %start, %now;
    .reg .u32 %thread;
    .reg .pred %waits, %held, %early;
    ld.param.u64 %flag, [flag];
    ld.param.u64 %ticket, [ticket];
    ld.param.u64 %asked, [cycles];
    mov.u64 %start, %clock64;
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %waits, %thread, 0;
    @%waits bra together;
again:
    ld.volatile.global.u64 %seen, [%flag];
    setp.ge.u64 %held, %seen, %ticket;
    @%held bra together;
    nanosleep.u32 500;
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %early, %now, %asked;
    @%early bra again;
together:
    bar.sync 0;
    ret;
}
"""


class Hold:
    """A kernel that does nothing, everywhere at once, until it is let go."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._kernel = driver.kernel(_PTX, b"hold")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        blocks_each = properties.max_threads_per_multi_processor // _THREADS
        self._blocks = blocks_each * properties.multi_processor_count
        self._ticket = 0
        self._flag = driver.host_word()

    def begin(self) -> None:
        """Enqueue it on torch's current stream.

        Raises:
            harness.gpu.driver.DriverError: The driver refuses.
        """
        self._ticket += 1
        arguments = (ctypes.addressof(self._flag), self._ticket, _MOST_CYCLES)
        self._driver.launch(self._kernel, self._blocks, _THREADS, arguments)

    def end(self) -> None:
        """Let the device go on to what was queued meanwhile."""
        self._flag.value = self._ticket
