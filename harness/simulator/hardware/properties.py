"""The simulated device's properties, which are those of an H200 except for a memory of 8 GiB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of the simulated device.

    The names are those of `torch.cuda.get_device_properties()`. Memory is in bytes.
    """

    name: str = "Simulated sm_90 device"
    major: int = 9
    minor: int = 0
    total_memory: int = 8 << 30
    multi_processor_count: int = 132
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    regs_per_multiprocessor: int = 65536
    warp_size: int = 32
    L2_cache_size: int = 60 << 20
    shared_memory_per_block: int = 48 << 10
    shared_memory_per_block_optin: int = 227 << 10
    shared_memory_per_multiprocessor: int = 228 << 10
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    gcnArchName: str = ""  # noqa: N815 - torch's name

    @property
    def architecture(self) -> str:
        """The compute capability without its dot, such as `90`."""
        return f"{self.major}{self.minor}"


DEVICE: Final = DeviceProperties()
MAX_BLOCK: Final = (1024, 1024, 64)
"""The most threads of a block along x, y and z; the first is also the most of a whole block."""
MAX_GRID: Final = (2**31 - 1, 65535, 65535)
"""The most blocks of a grid along x, y and z."""
