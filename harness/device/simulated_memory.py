"""The simulated device's memory and its shadow; torch's CPU kernels run on it."""

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

    The shadow has a byte for each byte of the memory. It says who wrote that byte.
    """

    torch_device = torch.device("cpu")

    def was_written(self, address: int, nbytes: int) -> bool:
        """Return whether any of these bytes was written since the allocation."""
        return not self.unwritten(address, nbytes).all()

    def bytes_at(self, address: int, nbytes: int) -> Tensor:
        """Return a tensor over the bytes themselves: uint8, on the CPU."""
        return torch.from_numpy(self.views(address, nbytes)[0])

    def queueing(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """Enclose code that queues work; it has no effect, since all work is done at once."""
        del waits
        return nullcontext()

    def uncounted(self) -> AbstractContextManager[None]:
        """Enclose work that is not timed; it has no effect, since nothing is timed here."""
        return nullcontext()

    def give(self, place: Place) -> None:
        """Record that the trusted side wrote a tensor."""
        self.library.sim_mark_written(place.address, place.nbytes)

    def mark(self, place: Place, *, of_kernels: bool) -> None:
        """Record that an operator wrote a tensor; see `DeviceMemory.mark`."""
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
        """Return whether a kernel has written any of a tensor."""
        return bool((self._shadow_at(place) == BY_KERNEL).any())

    def writers(self, place: Place) -> Tensor:
        """Return who wrote each element; see `DeviceMemory.writers`."""
        found = torch.full(place.shape, OTHER, dtype=torch.uint8)
        if not place.is_empty:
            states = self._shadow_at(place)
            found[(states == BY_KERNEL).all(-1)] = KERNEL
            found[(states == UNWRITTEN).any(-1)] = UNWRITTEN
        return found

    def _shadow_at(self, place: Place) -> Tensor:
        """Return a tensor's shadow: uint8, of its shape and a last dimension of an element's bytes.

        The result is a view. Writing to it changes the shadow.
        """
        width = DTYPES[place.dtype].itemsize
        strides = (*(stride * width for stride in place.strides), 1)
        shadow = torch.from_numpy(self.views(place.address, place.nbytes)[1])
        return shadow.as_strided((*place.shape, width), strides)
