"""A GPU's L2 cache without anything that a call could find there."""

from __future__ import annotations

import torch

from harness.gpu.driver import Driver

# Times of the cache's size that are read to empty it.
_FLUSHES = 2


class ColdCache:
    """Of the GPU that torch takes."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        words = _FLUSHES * cache // torch.int64.itemsize
        self._flush = torch.zeros(words, dtype=torch.int64, device="cuda")

    def empty(self) -> None:
        """Empty it; persisting lines are none afterwards.

        What is only read leaves nothing behind that a call would have to write back first.
        """
        self._driver.forget_persisting_lines()
        self._flush.amax()
