"""Emptying of a GPU's L2 cache, so that no timed call finds its data there."""

from __future__ import annotations

import torch

from harness.gpu.driver import Driver

# The bytes read to empty the cache, in multiples of its size.
_FLUSHES = 2


class ColdCache:
    """The L2 cache of the GPU that torch uses."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        words = _FLUSHES * cache // torch.int64.itemsize
        self._flush = torch.zeros(words, dtype=torch.int64, device="cuda")

    def empty(self) -> None:
        """Evict everything from the cache, including persisting lines.

        It is emptied by reads. Writes would leave dirty lines, and the timed call would have to
        write them back first.
        """
        self._driver.forget_persisting_lines()
        self._flush.amax()
