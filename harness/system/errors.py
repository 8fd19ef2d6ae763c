"""What ends a command with one line: what was wrong with which file, and what to do."""

from __future__ import annotations


class HarnessError(Exception):
    """Something that its user can mend; the message says what, in one line."""


class MachineError(HarnessError, RuntimeError):
    """This machine can evaluate nothing, whichever submission it is; that ends a run."""


class UsageError(HarnessError, ValueError):
    """The command line, or pytest's options, ask for something that cannot be."""
