"""Which GPU a measurement is of."""

from __future__ import annotations

import subprocess


def describe_gpu() -> str:
    """Name and driver of the GPU, as nvidia-smi tells them."""
    return subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
