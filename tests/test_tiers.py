"""The two tiers of the tests: the quick one, which contributors wait for, and all of them."""

from __future__ import annotations

import json

import pytest

from tests.support import ROOT

RECORD = ROOT / "results" / "test_seconds.json"
BUDGET_SECONDS = 480.0
"""Limit of `make test` with finished builds, summed over its two processes of four minutes each."""


def test_quick_tier_is_within_its_budget() -> None:
    """The recorded times of the quick tests add up to at most the budget of 480 seconds.

    `benchmarks/test_seconds.py` renews the record.
    """
    quick = json.loads(RECORD.read_text())["quick"]
    assert sum(quick.values()) <= BUDGET_SECONDS


def test_every_file_is_in_the_record(request: pytest.FixtureRequest) -> None:
    """Every test file is in the record of times, since an unmeasured file could take any time."""
    record = json.loads(RECORD.read_text())
    recorded = {ROOT / name for files in record.values() for name in files}
    new = {item.path for item in request.session.items} - recorded
    assert not new, "run benchmarks/test_seconds.py after `make test`"
