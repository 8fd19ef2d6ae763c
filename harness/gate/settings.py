"""Settings of the gate: the table `[tool.harness.gate]` of pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.system.errors import HarnessError

FILE = "pyproject.toml"
DEFAULT_THRESHOLD = 0.01
_TABLE = "[tool.harness.gate]"


class SettingsError(HarnessError, ValueError):
    """Settings in pyproject.toml that cannot be used; the message is one line that says why."""


@dataclass(frozen=True)
class Thresholds:
    """The fractions by which a time or a counter may change and still count as the same.

    Attributes:
        default: Threshold for problems that `problems` does not have.
        problems: Thresholds of single problems, by name.
    """

    default: float = DEFAULT_THRESHOLD
    problems: Mapping[str, float] = field(default_factory=dict)

    def of(self, problem: str) -> float:
        """Return the threshold for the problem of this name."""
        return self.problems.get(problem, self.default)

    def no_looser_than(self, other: Thresholds) -> Thresholds:
        """Return, for each problem, the smaller threshold of these and the other thresholds."""
        names = self.problems.keys() | other.problems.keys()
        return Thresholds(
            min(self.default, other.default),
            {name: min(self.of(name), other.of(name)) for name in names},
        )


def read(folder: Path) -> Thresholds:
    """Return the thresholds in a folder's pyproject.toml, or the defaults if it has no such file.

    Raises:
        SettingsError: The file is not TOML, or has an unknown setting or an invalid value.
    """
    path = folder / FILE
    return parsed(path.read_bytes(), path) if path.exists() else Thresholds()


def parsed(content: bytes, path: Path) -> Thresholds:
    """Return the thresholds in the content of a pyproject.toml; `path` is for messages.

    Raises:
        SettingsError: The content is not TOML, or has an unknown setting or an invalid value.
    """
    try:
        project = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None
    table = project.get("tool", {}).get("harness", {}).get("gate", {})
    unknown = sorted(set(table) - {"threshold", "problems"})
    if unknown:
        raise SettingsError(
            f"{path}: unknown key {unknown[0]} in {_TABLE}; the keys are threshold and problems"
        )
    problems = table.get("problems", {})
    return Thresholds(
        _fraction(path, "threshold", table.get("threshold", DEFAULT_THRESHOLD)),
        {name: _fraction(path, f"problems.{name}", value) for name, value in problems.items()},
    )


def _fraction(path: Path, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise SettingsError(
            f"{path}: {name} in {_TABLE} is {value!r}; give a fraction such as 0.01"
        )
    return float(value)
