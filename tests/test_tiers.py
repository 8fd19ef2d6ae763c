"""The two tiers of the tests: what a contributor waits for, and all of them."""

from __future__ import annotations

import json

import pytest

from tests.support import ROOT

RECORD = ROOT / "results" / "test_seconds.json"
BUDGET_SECONDS = 480.0
"""Of `make test` with finished builds, both of its processes together: four minutes."""


def test_quick_tier_is_within_its_budget() -> None:
    """What contributors wait for stays short; `benchmarks/test_seconds.py` renews the record."""
    quick = json.loads(RECORD.read_text())["quick"]
    assert sum(quick.values()) <= BUDGET_SECONDS


def test_every_file_is_in_the_record(request: pytest.FixtureRequest) -> None:
    """A file of tests that nobody has measured could take any time."""
    record = json.loads(RECORD.read_text())
    recorded = {ROOT / name for files in record.values() for name in files}
    new = {item.path for item in request.session.items} - recorded
    assert not new, "run benchmarks/test_seconds.py after `make test`"
