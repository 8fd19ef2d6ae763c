"""The GPU of a measurement."""

from __future__ import annotations

import subprocess


def describe_gpu() -> str:
    """Return name and driver version of the GPU, as nvidia-smi prints them."""
    return subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
