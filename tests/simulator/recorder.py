"""Results of a real GPU, recorded for each test and compared with the simulator's.

These commands run the same tests on a machine with a GPU. They store a digest of each result that a
test reads back.

    HARNESS_RECORD_GPU=FOLDER pytest tests/simulator -n 4 --max-worker-restart 200
    python -m tests.simulator.recorder FOLDER

Tests of the simulator's findings fail on a GPU, some of them together with their process, which
pytest-xdist then replaces. On every other machine, the simulator's results are compared with the
digests.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulator.gpu import Driver

RECORDED = Path(__file__).with_name("recorded.json")


@dataclass
class Recorder:
    """The digests of the results that one test reads back from the device."""

    digests: list[str] = field(default_factory=list)

    def note(self, data: bytes) -> None:
        """Add the digest of a result that was read back."""
        self.digests.append(hashlib.sha256(data).hexdigest()[:16])


@dataclass(frozen=True)
class Recording:
    """A recording session on a GPU; each process writes a file of its own."""

    driver: Driver
    folder: Path

    def keep(self, name: str, digests: list[str]) -> None:
        """Append the digests of a test that passed.

        Write them at once, because the next test may end the process.
        """
        self.folder.mkdir(exist_ok=True)
        with (self.folder / f"{os.getpid()}.jsonl").open("a") as file:
            print(json.dumps([self.driver.describe(), name, digests]), file=file)


@functools.cache
def read() -> dict[str, list[str]]:
    """Return the recorded digests of each test, or an empty dict if there are none."""
    if not RECORDED.exists():
        return {}
    results: dict[str, list[str]] = json.loads(RECORDED.read_text())["results"]
    return results


def merge(folder: Path, target: Path) -> None:
    """Merge the files of a session's processes into one file, sorted by the tests' names."""
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.open()]
    machine = lines[0][0]
    results = {name: digests for _, name, digests in lines}
    rows = [f"  {json.dumps(name)}: {json.dumps(results[name])}" for name in sorted(results)]
    body = ",\n".join(rows)
    target.write_text(f'{{"machine": {json.dumps(machine)},\n "results": {{\n{body}\n }}}}\n')


def difference(actual: list[str], recorded: list[str]) -> str | None:
    """Return a description of the first result that differs from the GPU's, or None."""
    if len(actual) != len(recorded):
        return f"reads back {len(actual)} results, and {len(recorded)} were recorded"
    for number, (mine, theirs) in enumerate(zip(actual, recorded, strict=True)):
        if mine != theirs:
            return f"result {number} of {len(actual)} is not what the GPU gave"
    return None


if __name__ == "__main__":
    merge(Path(sys.argv[1]), RECORDED)
