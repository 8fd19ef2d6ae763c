"""Run a command under Nsight Compute (ncu), and parse its output."""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """One kernel launch that ncu measured.

    Attributes:
        kernel: Name of the kernel.
        values: Value of each metric, without metrics that ncu did not measure.
    """

    kernel: str
    values: dict[str, float]


def supported(command: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """Return those of `metrics` that this ncu can measure for the command on this GPU.

    Metrics have other names on other GPUs and in other versions of ncu. One unknown name may make
    the whole measurement fail.
    """
    launches = _measured(command, metrics)
    if launches is None:
        return [metric for metric in metrics if _is_supported(command, metric)]
    return [m for m in metrics if any(m in launch.values for launch in launches)]


def _is_supported(command: Sequence[str], metric: str) -> bool:
    return any(launch.values for launch in _measured(command, [metric]) or ())


def measure(command: Sequence[str], metrics: Sequence[str]) -> list[Launch]:
    """Run the command under ncu, and return its kernel launches in order.

    Raises:
        RuntimeError: ncu fails; the message is the end of its output.
    """
    launches = _measured(command, metrics)
    if launches is None:
        raise RuntimeError(_ncu(command, metrics).stdout[-2000:])
    return launches


def _ncu(command: Sequence[str], metrics: Sequence[str]) -> subprocess.CompletedProcess[str]:
    options = ["--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    return subprocess.run(
        ["ncu", *options, "--metrics", ",".join(metrics), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _measured(command: Sequence[str], metrics: Sequence[str]) -> list[Launch] | None:
    """Run the command under ncu; return its kernel launches, or None if ncu fails."""
    done = _ncu(command, metrics)
    start = done.stdout.find('"ID"')
    if done.returncode or start < 0:
        return None
    rows = csv.DictReader(io.StringIO(done.stdout[start:]))
    # The row below the header has units. Other text in between belongs to no launch.
    return [
        Launch(row["Kernel Name"], _values(row, metrics)) for row in rows if row["ID"].isdigit()
    ]


def _values(row: dict[str, str], metrics: Sequence[str]) -> dict[str, float]:
    # A sum over instructions is followed by the number of instructions, which is not read.
    found = {m: re.match(r"[\d,.]+", row.get(m) or "") for m in metrics}
    return {m: float(text[0].replace(",", "")) for m, text in found.items() if text}
