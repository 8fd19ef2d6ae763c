"""The kinds of wrong memory accesses that stop a kernel on a real GPU."""

from typing import Literal

Fault = Literal["illegal address", "misaligned address"]
"""The kind of a fault. Not every finding is one: an access a few bytes beside an allocation reaches
mapped memory on real hardware, so the kernel continues."""
