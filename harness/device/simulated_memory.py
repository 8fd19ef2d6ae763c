"""The simulated device's memory, with a record of what wrote each byte.

torch's CPU kernels run torch's operators on this memory.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from harness.device.executor import KERNEL, OTHER, WRITTEN
from harness.device.place import Place
from harness.simulator.hardware.memory import Memory
from harness.simulator.layout.scalar_types import DTYPES
from harness.simulator.native.bindings import BY_KERNEL, UNWRITTEN


class SimulatedMemory(Memory):
    """An `executor.DeviceMemory` on the simulator.

    Each byte of the memory has a shadow byte, which says what wrote the byte.
    """

    torch_device = torch.device("cpu")

    def was_written(self, address: int, nbytes: int) -> bool:
        """Return whether any of `nbytes` bytes at an address was written since their allocation."""
        return not self.unwritten(address, nbytes).all()

    def bytes_at(self, address: int, nbytes: int) -> Tensor:
        """Return bytes at an address as a uint8 tensor on the CPU, without a copy."""
        return torch.from_numpy(self.views(address, nbytes)[0])

    def queueing(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """Return a context without effect, since the simulator does all work at once."""
        del waits
        return nullcontext()

    def uncounted(self) -> AbstractContextManager[None]:
        """Return a context without effect, since the simulator does not measure time."""
        return nullcontext()

    def give(self, place: Place) -> None:
        """Record that a tensor's values come from the supervisor, not from the submission."""
        self.library.sim_mark_written(place.address, place.nbytes)

    def mark(self, place: Place, *, of_kernels: bool) -> None:
        """Record that one of torch's operators wrote a tensor; see `DeviceMemory.mark`."""
        self._shadow_at(place).fill_(BY_KERNEL if of_kernels else WRITTEN)

    def mark_copy(self, target: Place, source: Place | None, shape: tuple[int, ...]) -> None:
        """Record that a tensor was copied; see `DeviceMemory.mark_copy`."""
        shadow = self._shadow_at(target)
        if source is None:
            shadow.fill_(WRITTEN)
            return
        states = self._shadow_at(source)
        # A copy to another dtype has no bytes in common with its source. Each of its bytes gets the
        # lowest state in the source's element: unwritten before others, others before kernels.
        if states.shape[-1] != shadow.shape[-1]:
            states = states.amin(-1, keepdim=True)
        shadow.copy_(states.expand(*shape, states.shape[-1]))

    def is_of_kernels(self, place: Place) -> bool:
        """Return whether a kernel has written any part of a tensor."""
        return bool((self._shadow_at(place) == BY_KERNEL).any())

    def writers(self, place: Place) -> Tensor:
        """Return a code for the writer of each element; see `DeviceMemory.writers`."""
        found = torch.full(place.shape, OTHER, dtype=torch.uint8)
        if not place.is_empty:
            states = self._shadow_at(place)
            found[(states == BY_KERNEL).all(-1)] = KERNEL
            found[(states == UNWRITTEN).any(-1)] = UNWRITTEN
        return found

    def _shadow_at(self, place: Place) -> Tensor:
        """Return the shadow bytes of a tensor: uint8, of shape (*shape, bytes of an element).

        The result is a view. Writing to it changes the shadow.
        """
        width = DTYPES[place.dtype].itemsize
        strides = (*(stride * width for stride in place.strides), 1)
        shadow = torch.from_numpy(self.views(place.address, place.nbytes)[1])
        return shadow.as_strided((*place.shape, width), strides)
