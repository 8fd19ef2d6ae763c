"""The choice of a device: a CUDA GPU or the simulator."""

from __future__ import annotations

from typing import Literal

import torch

from harness.gpu import lease
from harness.system.device import Device
from harness.system.errors import HarnessError
from harness.system.processors import usable_cores

Choice = Literal["auto", "cuda", "simulator"]
"""A choice of `defaults.DEVICES`."""


class DeviceError(HarnessError, RuntimeError):
    """The requested device is missing on this machine; the message says which device exists."""


def choose(choice: Choice) -> Device:
    """Return the requested device; for `auto`, the GPU if there is one, else the simulator.

    Raises:
        DeviceError: The device cannot be used on this machine.
    """
    if choice != "simulator" and torch.cuda.is_available():
        return "cuda"
    if choice == "cuda":
        raise DeviceError("--device cuda: torch sees no GPU here; use --device simulator")
    return "simulator"


def default_jobs(device: Device) -> int:
    """Return the default number of evaluations at a time on a device of this machine."""
    cores = usable_cores()
    return min(cores, lease.evaluations_that_fit()) if device == "cuda" else cores
