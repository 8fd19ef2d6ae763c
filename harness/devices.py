"""Which device to run on."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from harness.build.flags import Device

Choice = Literal["auto", "cuda", "simulator"]
CHOICES: tuple[str, ...] = get_args(Choice)


class DeviceError(RuntimeError):
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
    if torch.version.cuda is not None:
        raise DeviceError(
            "the simulator needs a CPU-only torch, and this one is built for CUDA "
            f"{torch.version.cuda}; run: pip install --force-reinstall torch "
            "--index-url https://download.pytorch.org/whl/cpu"
        )
    return "simulator"
