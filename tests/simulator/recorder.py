"""Results of a real GPU, recorded for each test and compared with the simulator's.

The first command runs the simulator's tests on a GPU. It stores a digest of each array that a test
copies back from the device. The second command merges the digests into recorded.json.

    HARNESS_RECORD_GPU=FOLDER pytest tests/simulator -n 4 --max-worker-restart 200
    python -m tests.simulator.recorder FOLDER

Tests of the simulator's own findings fail on a GPU. Some of these tests also end the test process,
which pytest-xdist then replaces. Without the environment variable, the tests run on the simulator
and compare its results with the recorded digests.
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
    """The digests of all arrays that one test copies back from the device."""

    digests: list[str] = field(default_factory=list)

    def note(self, data: bytes) -> None:
        """Add the digest of bytes that a test copied back from the device."""
        self.digests.append(hashlib.sha256(data).hexdigest()[:16])


@dataclass(frozen=True)
class Recording:
    """A recording session on a GPU; each test process writes a file of its own.

    Attributes:
        driver: The CUDA driver, which runs the kernels.
        folder: Folder for the files.
    """

    driver: Driver
    folder: Path

    def keep(self, name: str, digests: list[str]) -> None:
        """Append the digests of a passed test to this process's file.

        They are written at once, because the next test may end the process.
        """
        self.folder.mkdir(exist_ok=True)
        with (self.folder / f"{os.getpid()}.jsonl").open("a") as file:
            print(json.dumps([self.driver.describe(), name, digests]), file=file)


@functools.cache
def read() -> dict[str, list[str]]:
    """Return the digests in recorded.json by test id, or an empty dict if the file is missing."""
    if not RECORDED.exists():
        return {}
    results: dict[str, list[str]] = json.loads(RECORDED.read_text())["results"]
    return results


def merge(folder: Path, target: Path) -> None:
    """Merge the files of all processes of a recording session into one file, sorted by test id."""
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.open()]
    machine = lines[0][0]
    results = {name: digests for _, name, digests in lines}
    rows = [f"  {json.dumps(name)}: {json.dumps(results[name])}" for name in sorted(results)]
    body = ",\n".join(rows)
    target.write_text(f'{{"machine": {json.dumps(machine)},\n "results": {{\n{body}\n }}}}\n')


def difference(actual: list[str], recorded: list[str]) -> str | None:
    """Describe how a test's digests differ from the digests recorded on a GPU.

    Only the first difference is described. The result is None if there is no difference.
    """
    if len(actual) != len(recorded):
        return f"reads back {len(actual)} results, and {len(recorded)} were recorded"
    for number, (mine, theirs) in enumerate(zip(actual, recorded, strict=True)):
        if mine != theirs:
            return f"result {number} of {len(actual)} is not what the GPU gave"
    return None


if __name__ == "__main__":
    merge(Path(sys.argv[1]), RECORDED)
