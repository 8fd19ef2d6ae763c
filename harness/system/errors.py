"""Errors that end a command with one line, which names the file, the fault and the remedy."""

from __future__ import annotations


class HarnessError(Exception):
    """An error that the user can correct; its message is one line."""


class MachineError(HarnessError, RuntimeError):
    """A fault of this machine prevents every evaluation, and therefore ends the run."""


class UsageError(HarnessError, ValueError):
    """An invalid value or combination of command-line or pytest options."""
