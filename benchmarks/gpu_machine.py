"""The name and the driver of the GPU that a benchmark runs on, for its results."""

from __future__ import annotations

import subprocess


def describe_gpu() -> str:
    """Return the GPU's name and driver version, as nvidia-smi prints them."""
    return subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
