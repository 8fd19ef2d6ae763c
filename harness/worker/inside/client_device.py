"""A worker's `cuda` device, whose memory and kernels are in the device process."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from harness.device.place import Place
from harness.messages.kinds import NOBODY_ASKED
from harness.simulator.hardware.properties import DeviceProperties
from harness.simulator.layout.scalar_types import DTYPES
from harness.simulator.native.library import Libraries
from harness.worker.inside.symbols import symbols_of_a_gpu
from harness.worker.inside.torch_cuda import ClientCuda, cuda_error


class ClientDevice:
    """The `cuda` device of this process; it must be made before any other use of `torch.cuda`."""

    def __init__(self, libraries: Libraries, descriptor: int, properties: DeviceProperties) -> None:
        """Connect to the device process, and install the device in torch.

        Args:
            libraries: The simulator's shared libraries.
            descriptor: File descriptor of the connection to the device process.
            properties: The properties that the device reports.

        Raises:
            OSError: The device process does not answer.
        """
        # The runtime is loaded already, before torch. Extensions find its functions as if they were
        # linked with it.
        self._runtime = ctypes.CDLL(str(libraries.runtime))
        if self._runtime.sim_connect(descriptor):
            raise OSError("the device process does not answer")
        ctypes.CDLL(str(libraries.device), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(libraries.bindings))
        self._cuda = ClientCuda(self._runtime, properties)
        self._cuda.install()

    def recover(self, multiprocessors: int | None = None) -> None:
        """Clear all CUDA errors, even those after which a real GPU needs a new process.

        Args:
            multiprocessors: Number of multiprocessors that the device reports from now on; None for
                the number in its properties.
        """
        self._runtime.sim_recover()
        self._cuda.pretend(multiprocessors)

    def raise_unread_error(self) -> None:
        """Raise the error of a failed call that the submission has not checked.

        Raises:
            torch.AcceleratorError: cudaGetLastError() returns an error in this thread.
        """
        error = self._runtime.cudaGetLastError()
        if error:
            raise cuda_error(self._runtime, error, f" ({NOBODY_ASKED})")

    def check(self, library: bytes) -> None:
        """Check that the simulator has all functions of CUDA's libraries that an extension needs.

        Raises:
            ImportError: The simulator lacks one of these functions. The text is like the dynamic
            linker's, because the linker itself reports nothing if torch has loaded CUDA's
            libraries.
        """
        missing = symbols_of_a_gpu(library)
        if missing:
            raise ImportError(f"undefined symbol: {missing[0]}")

    def tensor_at(self, place: Place) -> Tensor:
        """Return the tensor on the device that has this address, shape, strides and dtype."""
        found: Tensor = torch.ops.harness.tensor_at(
            place.address, place.shape, place.strides, DTYPES[place.dtype]
        )
        return found


def places_of(tensors: Sequence[Tensor]) -> tuple[Place, ...]:
    """Return the address, shape, strides and dtype of each device tensor."""
    return tuple(place_of(tensor) for tensor in tensors)


def place_of(tensor: Tensor) -> Place:
    """Return the address, shape, strides and dtype of a device tensor."""
    return Place.of(tensor.data_ptr() if tensor.numel() else 0, tensor)
