"""Errors that end a command with one line: the file, what is wrong with it, and the remedy."""

from __future__ import annotations


class HarnessError(Exception):
    """An error that the user can correct; its message is one line."""


class MachineError(HarnessError, RuntimeError):
    """An error of this machine that prevents every evaluation and therefore ends the run."""


class UsageError(HarnessError, ValueError):
    """An invalid value or combination of command-line or pytest options."""
