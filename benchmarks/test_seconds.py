"""Record how many seconds each test file takes: `python benchmarks/test_seconds.py` after a run.

The program reads .harness/tests.xml, which pytest wrote, and writes results/test_seconds.json. It
adds up, by tier (`quick` or `thorough`), how long the tests and fixtures of each file kept one of
the two test processes busy. After `make test`, pass `--tier quick`, because that command does not
run the tier `thorough`. `--file tests/test_x.py` updates only the record of that file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "test_seconds.json"
TIERS = ("quick", "thorough")


def main() -> None:
    """Write the record; print the total time of each tier and its slowest files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--xml", type=Path, default=ROOT / ".harness" / "tests.xml")
    parser.add_argument("--tier", choices=TIERS, nargs="+", default=TIERS)
    parser.add_argument("--file", action="append", default=[])
    options = parser.parse_args()
    measured = _by_file(options.xml, _quick_tests())
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for tier in options.tier:
        renewed = {
            name: round(seconds, 1)
            for name, seconds in measured[tier].items()
            if not options.file or name in options.file
        }
        kept = record.get(tier, {}) if options.file else {}
        record[tier] = dict(sorted({**kept, **renewed}.items()))
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    for tier, files in record.items():
        print(f"{tier}: {sum(files.values()):.0f} s in {len(files)} files")
        for name, seconds in Counter(files).most_common(15):
            print(f"  {seconds:7.1f} {name}")


def _by_file(xml: Path, quick: set[str]) -> dict[str, dict[str, float]]:
    """Return the seconds of each test file in pytest's XML report, by tier.

    `quick` has the ids of the tests that belong to the quick tier.
    """
    found: dict[str, dict[str, float]] = {tier: {} for tier in TIERS}
    for case in ElementTree.parse(xml).iter("testcase"):  # noqa: S314 - our own pytest's
        name = case.get("classname", "").replace(".", "/") + ".py"
        tier = TIERS[f"{name}::{case.get('name')}" not in quick]
        found[tier][name] = found[tier].get(name, 0.0) + float(case.get("time", 0))
    return found


def _quick_tests() -> set[str]:
    """Return the ids of the tests in the quick tier, as `pytest --collect-only` lists them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not thorough"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


if __name__ == "__main__":
    main()
