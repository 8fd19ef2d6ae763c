"""Results of a real GPU beside those of the simulator, test by test.

`HARNESS_RECORD_GPU=FILE pytest tests/simulator` on a machine with a GPU runs the same tests there
and writes a digest of everything that they read back; without the variable, the simulator's results
are compared with the digests that the repository keeps.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

RECORDED = Path(__file__).with_name("recorded.json")


@dataclass
class Recorder:
    """Collects what one test reads back from the device."""

    digests: list[str] = field(default_factory=list)

    def note(self, data: bytes) -> None:
        """Something was read back."""
        self.digests.append(hashlib.sha256(data).hexdigest()[:16])


def read() -> dict[str, list[str]]:
    """The GPU's digests by test; empty where none were recorded yet."""
    if not RECORDED.exists():
        return {}
    results: dict[str, list[str]] = json.loads(RECORDED.read_text())["results"]
    return results


def write(path: Path, machine: dict[str, str], results: dict[str, list[str]]) -> None:
    """Keep digests, with the machine that they are of."""
    lines = [f"  {json.dumps(name)}: {json.dumps(results[name])}" for name in sorted(results)]
    body = ",\n".join(lines)
    path.write_text(f'{{"machine": {json.dumps(machine)},\n "results": {{\n{body}\n }}}}\n')


def difference(actual: list[str], recorded: list[str]) -> str | None:
    """Which result is not the GPU's, or None if all are."""
    if len(actual) != len(recorded):
        return f"reads back {len(actual)} results, and {len(recorded)} were recorded"
    for number, (mine, theirs) in enumerate(zip(actual, recorded, strict=True)):
        if mine != theirs:
            return f"result {number} of {len(actual)} is not what the GPU gave"
    return None
