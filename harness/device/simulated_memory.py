"""The simulated device's memory, with torch's kernels for the CPU on it, and its shadow."""

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
    """As `executor.DeviceMemory` has it."""

    torch_device = torch.device("cpu")

    def was_written(self, address: int, nbytes: int) -> bool:
        """Whether anything has written any of these bytes since they were allocated."""
        return not self.unwritten(address, nbytes).all()

    def bytes_at(self, address: int, nbytes: int) -> Tensor:
        """The bytes themselves."""
        return torch.from_numpy(self.views(address, nbytes)[0])

    def queueing(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """Nothing: whoever asks for work waits for it."""
        del waits
        return nullcontext()

    def uncounted(self) -> AbstractContextManager[None]:
        """Nothing: no time is taken here."""
        return nullcontext()

    def give(self, place: Place) -> None:
        """Let a tensor count as written by the trusted side."""
        self.library.sim_mark_written(place.address, place.nbytes)

    def mark(self, place: Place, *, of_kernels: bool) -> None:
        """Let a tensor count as written by an operator, of what kernels have written or not."""
        self._shadow_at(place).fill_(BY_KERNEL if of_kernels else WRITTEN)

    def mark_copy(self, target: Place, source: Place | None, shape: tuple[int, ...]) -> None:
        """Let a tensor be as written as what was copied to it."""
        shadow = self._shadow_at(target)
        if source is None:
            shadow.fill_(WRITTEN)
            return
        states = self._shadow_at(source)
        if states.shape[-1] != shadow.shape[-1]:
            states = states.amin(-1, keepdim=True)
        shadow.copy_(states.expand(*shape, states.shape[-1]))

    def is_of_kernels(self, place: Place) -> bool:
        """Whether a kernel has written any of it."""
        return bool((self._shadow_at(place) == BY_KERNEL).any())

    def writers(self, place: Place) -> Tensor:
        """Who wrote each element."""
        found = torch.full(place.shape, OTHER, dtype=torch.uint8)
        if not place.is_empty:
            states = self._shadow_at(place)
            found[(states == BY_KERNEL).all(-1)] = KERNEL
            found[(states == UNWRITTEN).any(-1)] = UNWRITTEN
        return found

    def _shadow_at(self, place: Place) -> Tensor:
        """The shadow of its memory: uint8 of its shape, and an element's bytes behind that."""
        width = DTYPES[place.dtype].itemsize
        strides = (*(stride * width for stride in place.strides), 1)
        shadow = torch.from_numpy(self.views(place.address, place.nbytes)[1])
        return shadow.as_strided((*place.shape, width), strides)
