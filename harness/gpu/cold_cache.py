"""Emptying of a GPU's L2 cache, so that a timed call finds none of its data in the cache."""

from __future__ import annotations

import torch

from harness.gpu.driver import Driver

# The bytes read to empty the cache, in multiples of its size.
_FLUSHES = 2


class ColdCache:
    """Empties the L2 cache of the GPU that torch uses."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        words = _FLUSHES * cache // torch.int64.itemsize
        self._flush = torch.zeros(words, dtype=torch.int64, device="cuda")

    def empty(self) -> None:
        """Evict all data from the L2 cache, including persisting lines.

        The method reads unrelated memory of twice the cache's size. Writes would leave dirty lines,
        which the GPU would have to write back during the timed call.
        """
        self._driver.forget_persisting_lines()
        self._flush.amax()
