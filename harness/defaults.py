"""What holds where nothing else is asked for: read by doors, which import next to nothing first."""

from __future__ import annotations

from pathlib import Path

DEVICES = ("auto", "cuda", "simulator")
"""Where submissions may run: on the GPU where there is one, or on one of the two."""

STEP_SECONDS = 120.0
"""Deadline for importing a submission, constructing it, and one call."""

CHECK_SECONDS = 1800.0
"""What all steps of a check may take together."""

BUILD_SECONDS = 1800.0
"""What all builds of a check may take together."""

CALL_BUDGET = 6 * 10**9
"""Thread-instructions of one call on the simulator, which does about 10**9 of them a second."""

SPEED_SECONDS = 30.0
"""For the rounds of one submission on one problem."""

RESULTS = Path("results")
"""Where measured speeds are kept, below the folder from which a command is called."""
