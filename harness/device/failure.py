"""Conversion of an error that stopped the device into the fault that a report shows."""

from __future__ import annotations

import traceback

from harness.messages.faults import Fault
from harness.simulator.hardware.budget import OverBudget
from harness.simulator.hardware.errors import (
    KernelTrap,
    LibraryCall,
    UnsupportedCall,
    UnsupportedInstruction,
)
from harness.simulator.ptx.fatbinary import FatBinaryError


def fault_of(error: BaseException) -> Fault:
    """Return the fault for an error that stopped the device."""
    text = " ".join(str(error).split())
    if isinstance(error, OverBudget):
        return Fault("budget", text)
    if isinstance(error, LibraryCall):
        return Fault("library", text)
    if isinstance(error, UnsupportedInstruction | UnsupportedCall | FatBinaryError):
        return Fault("unsupported", text)
    named = f"{type(error).__name__}: {text}"
    if isinstance(error, KernelTrap):
        return Fault("exception", named)
    return Fault("exception", named, "".join(traceback.format_exception(error)).rstrip())
