"""Which device to run on."""

from __future__ import annotations

from typing import Literal

import torch

from harness.gpu import lease
from harness.system.device import Device
from harness.system.errors import HarnessError
from harness.system.processors import usable_cores

Choice = Literal["auto", "cuda", "simulator"]
"""As in `defaults.DEVICES`."""


class DeviceError(HarnessError, RuntimeError):
    """The device that was asked for is not here; the message says what is."""


def choose(choice: Choice) -> Device:
    """The GPU where there is one, else the simulator, unless one of them is asked for.

    Raises:
        DeviceError: it cannot be used on this machine.
    """
    if choice != "simulator" and torch.cuda.is_available():
        return "cuda"
    if choice == "cuda":
        raise DeviceError("--device cuda: torch sees no GPU here; use --device simulator")
    return "simulator"


def default_jobs(device: Device) -> int:
    """How many evaluations at a time, where nobody says it."""
    cores = usable_cores()
    return min(cores, lease.evaluations_that_fit()) if device == "cuda" else cores
