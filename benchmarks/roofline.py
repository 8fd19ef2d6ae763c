"""Draw a roofline: the rates of submissions and baselines below those of memory and tensor cores.

    python benchmarks/roofline.py results docs/roofline.svg

The points are the newest time of every submission for every problem, and the fastest baseline of
each precision, from `results/*.jsonl`. The sloping line is the largest bandwidth of a copy in these
files. The flat line is the rate of the fastest TF32 variant in `results/kernels_h200.json` that
only multiplies, without loads or stores.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

_WIDTH, _HEIGHT = 860.0, 560.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 70.0, 30.0, 30.0, 60.0
_LABEL_HEIGHT = 12.0
_ONLY_MULTIPLIES = {"no loads", "no stores"}


@dataclass(frozen=True)
class Point:
    """The rate of a submission or baseline on one problem.

    Attributes:
        name: Name of the submission or baseline.
        is_submission: True for a submission, False for a baseline.
        intensity: Arithmetic operations for each byte of memory traffic.
        rate: Rate in TFLOP/s.
    """

    name: str
    is_submission: bool
    intensity: float
    rate: float


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis; `low` lies at coordinate `start` of the drawing, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the coordinate of a value in the drawing."""
        across = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + across * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the values within the axis that are 1, 2 or 5 times a power of ten."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)))
        values = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        return [value for value in values if self.low <= value <= self.high]


def main() -> None:
    """Read the results, and write the drawing as SVG."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="folder of the results")
    parser.add_argument("drawing", type=Path, help="SVG file to write")
    arguments = parser.parse_args()
    files = [_newest(path) for path in sorted(arguments.results.glob("*.jsonl"))]
    problems = [records for records in files if records]
    points = [point for records in problems for point in _points(records)]
    bandwidth = max(record["bandwidth_gbs"] for records in problems for record in records) / 1e3
    bench = json.loads((arguments.results / "kernels_h200.json").read_text())
    flops = {records[0]["problem"]: records[0]["flops"] for records in problems}
    arguments.drawing.write_text(_draw(points, bandwidth, _tensor_rate(bench, flops)))


def _newest(path: Path) -> list[dict[str, Any]]:
    """Return the newest record of each submission in a .jsonl file of measured times.

    The list is empty if the file has only records of another kind.
    """
    records = (json.loads(line) for line in path.read_text().splitlines())
    times = (record for record in records if "baselines" in record)
    return list({record["submission"]: record for record in times}.values())


def _points(records: list[dict[str, Any]]) -> list[Point]:
    fastest: dict[str, float] = {}
    for name, baseline in records[0]["baselines"].items():
        precision = f"cuDNN {name.split()[-1]}"
        fastest[precision] = min(baseline["median_ms"], fastest.get(precision, math.inf))
    times = [(record["submission"], True, record["median_ms"]) for record in records]
    times += [(name, False, median_ms) for name, median_ms in fastest.items()]
    flops, intensity = records[0]["flops"], records[0]["flops"] / records[0]["bytes"]
    return [Point(name, own, intensity, flops / ms / 1e9) for name, own, ms in times]


def _tensor_rate(bench: dict[str, Any], flops: dict[str, float]) -> float:
    """Return the rate, in TFLOP/s, of the fastest TF32 variant that only multiplies."""
    return max(
        float(flops[variant["problem"]] / variant["time"]["median_ms"] / 1e9)
        for run in bench["runs"]
        for variant in run["variants"]
        if set(variant["flags"]) >= _ONLY_MULTIPLIES and variant["kind"] == "tf32"
    )


def _draw(points: list[Point], bandwidth: float, tensor_rate: float) -> str:
    """Return the roofline as SVG; `bandwidth` is in TB/s, `tensor_rate` in TFLOP/s."""
    intensities = [point.intensity for point in points]
    x = Axis(min(intensities) / 2, max(intensities) * 3, _LEFT, _WIDTH - _RIGHT)
    y = Axis(min(point.rate for point in points) / 2, tensor_rate * 2, _HEIGHT - _BOTTOM, _TOP)
    ridge = tensor_rate / bandwidth
    roof = " ".join(
        f"{x.place(at):.1f},{y.place(min(at * bandwidth, tensor_rate)):.1f}"
        for at in sorted({x.low, min(max(ridge, x.low), x.high), x.high})
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}"'
        ' font-family="sans-serif" font-size="11" fill="#333">',
        f'<rect width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" fill="white"/>',
        *(_tick(x.place(at), at) for at in x.ticks()),
        *(_level(y.place(at), at) for at in y.ticks()),
        f'<polyline points="{roof}" fill="none" stroke="#b03030" stroke-width="2"/>',
        f'<text x="{x.place(x.high) - 4:.1f}" y="{y.place(tensor_rate) - 6:.1f}" text-anchor="end"'
        f' fill="#b03030">{tensor_rate:.0f} TFLOP/s: TF32 multiplications alone</text>',
        f'<text x="{x.place(x.low) + 8:.1f}" y="{y.place(x.low * bandwidth) + 14:.1f}"'
        f' fill="#b03030">{bandwidth:.2f} TB/s: a copy</text>',
        *_marks(points, x, y),
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.1f}" y="{_HEIGHT - 14:.1f}"'
        ' text-anchor="middle">operations for each byte of x and y</text>',
        f'<text x="{_LEFT - 50:.1f}" y="{_TOP - 12:.1f}">TFLOP/s</text>',
        "</svg>\n",
    ]
    return "\n".join(parts)


def _marks(points: list[Point], x: Axis, y: Axis) -> list[str]:
    """Return SVG dots and names of all points; a name moves down if it would overlap another."""
    parts = []
    below: dict[float, float] = {}
    for point in sorted(points, key=lambda point: -point.rate):
        across, down = x.place(point.intensity), y.place(point.rate)
        color = "#2060a0" if point.is_submission else "#909090"
        parts.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="4" fill="{color}"/>')
        name_at = max(down + 4, below.get(point.intensity, 0.0) + _LABEL_HEIGHT)
        below[point.intensity] = name_at
        parts.append(
            f'<text x="{across + 8:.1f}" y="{name_at:.1f}" fill="{color}">'
            f"{escape(point.name)} {point.rate:.3g}</text>"
        )
    return parts


def _tick(across: float, value: float) -> str:
    return (
        f'<path d="M{across:.1f} {_TOP} V{_HEIGHT - _BOTTOM}" stroke="#e8e8e8"/>'
        f'<text x="{across:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{value:g}</text>'
    )


def _level(down: float, value: float) -> str:
    return (
        f'<path d="M{_LEFT} {down:.1f} H{_WIDTH - _RIGHT}" stroke="#e8e8e8"/>'
        f'<text x="{_LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{value:g}</text>'
    )


if __name__ == "__main__":
    main()
