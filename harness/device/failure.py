"""Conversion of an error that stopped the device into the fault that a report shows."""

from __future__ import annotations

import traceback
from typing import Any

from harness.messages.kinds import FaultKind
from harness.simulator.hardware.budget import OverBudget
from harness.simulator.hardware.errors import (
    KernelTrap,
    LibraryCall,
    UnsupportedCall,
    UnsupportedInstruction,
)
from harness.simulator.ptx.fatbinary import FatBinaryError


def describe(error: BaseException) -> dict[str, Any]:
    """Return an error as plain data: kind, message (one line) and detail, as in `faults.Fault`."""
    kind, message, detail = _described(error)
    return {"kind": kind, "message": message, "detail": detail}


def _described(error: BaseException) -> tuple[FaultKind, str, str]:
    text = " ".join(str(error).split())
    if isinstance(error, OverBudget):
        return "budget", text, ""
    if isinstance(error, LibraryCall):
        return "library", text, ""
    if isinstance(error, UnsupportedInstruction | UnsupportedCall | FatBinaryError):
        return "unsupported", text, ""
    named = f"{type(error).__name__}: {text}"
    if isinstance(error, KernelTrap):
        return "exception", named, ""
    return "exception", named, "".join(traceback.format_exception(error)).rstrip()
