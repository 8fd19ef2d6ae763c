"""The `cuda` device of a worker whose memory and kernels are another process's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harness.messages.kinds import NOBODY_ASKED
from harness.simulator.hardware.properties import DeviceProperties
from harness.simulator.layout.scalar_types import DTYPES, NUMBERS
from harness.simulator.native.library import Libraries
from harness.worker.inside.symbols import symbols_of_a_gpu
from harness.worker.inside.torch_cuda import SimulatedCuda, cuda_error

Place = dict[str, Any]
"""`harness.device.tensors.Place` as plain data."""


class ClientDevice:
    """The device of this process; make one, before anything else uses torch's `cuda`."""

    def __init__(self, libraries: Libraries, descriptor: int, properties: DeviceProperties) -> None:
        """On the socket `descriptor` the device process answers.

        Raises:
            OSError: nobody answers there.
        """
        # simulated.py has loaded it: extensions find its functions as if they were linked with it.
        self._runtime = ctypes.CDLL(str(libraries.runtime))
        if self._runtime.sim_connect(descriptor):
            raise OSError("the device process does not answer")
        ctypes.CDLL(str(libraries.device), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(libraries.bindings))
        self._cuda = SimulatedCuda(self._runtime, properties)
        self._cuda.install()

    def recover(self, multiprocessors: int | None = None) -> None:
        """Forget errors, those as well that leave real hardware unusable until the process ends.

        Args:
            multiprocessors: How many the device says that it has; None for as many as it has.
        """
        self._runtime.sim_recover()
        self._cuda.pretend(multiprocessors)

    def raise_unread_error(self) -> None:
        """Tell of a call that failed, where the caller has not looked.

        Raises:
            torch.AcceleratorError: cudaGetLastError() of this thread would have told an error.
        """
        error = self._runtime.cudaGetLastError()
        if error:
            raise cuda_error(self._runtime, error, f" ({NOBODY_ASKED})")

    def check(self, library: bytes) -> None:
        """Look at an extension before it is loaded.

        Raises:
            ImportError: it needs functions of a GPU's libraries that the simulator has not got; the
                words are those of the dynamic linker, which has nothing to say where torch has
                loaded such libraries.
        """
        missing = symbols_of_a_gpu(library)
        if missing:
            raise ImportError(f"undefined symbol: {missing[0]}")

    def tensor_at(self, place: Place) -> Tensor:
        """What the trusted side has put into the device's memory."""
        found: Tensor = torch.ops.harness.tensor_at(
            place["address"], place["shape"], place["strides"], DTYPES[place["dtype"]]
        )
        return found


def places_of(tensors: Sequence[Tensor]) -> list[Place]:
    """Where tensors are on the device."""
    return [place_of(tensor) for tensor in tensors]


def place_of(tensor: Tensor) -> Place:
    """Where a tensor is on the device."""
    return {
        "address": tensor.data_ptr() if tensor.numel() else 0,
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "dtype": NUMBERS[tensor.dtype],
    }
