"""A kernel that keeps every multiprocessor busy while the host queues the work to be timed."""

from __future__ import annotations

import ctypes

import torch

from harness.gpu.driver import Driver

_THREADS = 1024
# The kernel gives up after this many cycles, some 60 ms, in which hundreds of launches are queued.
# Without a limit, a host that waits for the held device would wait for ever.
_MOST_CYCLES = 100_000_000

# The threads fill each multiprocessor, so that no block of another kernel fits, whatever its
# stream. Holding one stream alone would let work on others start early. One thread of each block
# polls the flag and sleeps in between, so that polling does not heat the chip.
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
    """A kernel that occupies the whole GPU, without computing anything, until `end` is called.

    `begin` gives each launch the next number. The kernel waits until a flag in host memory has
    reached this number, which `end` writes to the flag. So a kernel that starts only after `end`
    was called does not wait.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._kernel = driver.kernel(_PTX, b"hold")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        blocks_each = properties.max_threads_per_multi_processor // _THREADS
        self._blocks = blocks_each * properties.multi_processor_count
        self._ticket = 0
        self._flag = driver.host_word()

    def begin(self) -> None:
        """Launch the waiting kernel on torch's current stream.

        Raises:
            harness.gpu.driver.DriverError: The driver refuses the launch.
        """
        self._ticket += 1
        arguments = (ctypes.addressof(self._flag), self._ticket, _MOST_CYCLES)
        self._driver.launch(self._kernel, self._blocks, _THREADS, arguments)

    def end(self) -> None:
        """Let the waiting kernel end, so that the GPU runs the work that was queued meanwhile."""
        self._flag.value = self._ticket
