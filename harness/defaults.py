"""Default values of options, in a module with few imports, for entry points that start quickly."""

from __future__ import annotations

from pathlib import Path

DEVICES = ("auto", "cuda", "simulator")
"""The choices of a device. `auto` is the GPU if there is one, else the simulator."""

STEP_SECONDS = 120.0
"""Deadline in seconds for importing a submission, for constructing it, and for one call."""

CHECK_SECONDS = 1800.0
"""Limit in seconds of all steps of a check together."""

BUILD_SECONDS = 1800.0
"""Limit in seconds of all builds of a check together."""

JUDGING_SECONDS = 600.0
"""Limit in seconds of the harness's own work on the outputs of one call."""

CALL_BUDGET = 6 * 10**9
"""Limit of one call in thread-instructions; the simulator executes about 10**9 a second."""

SPEED_SECONDS = 30.0
"""Limit in seconds of the rounds of one submission on one problem."""

RESULTS = Path("results")
"""Folder of measured speeds, below the folder from which a command is called."""
