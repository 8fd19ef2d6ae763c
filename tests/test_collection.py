"""A check that pytest collects every test file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import ROOT


def test_every_file_of_tests_is_collected(request: pytest.FixtureRequest) -> None:
    """Pytest collects every test file, although it silently skips folders such as `build`."""
    config = request.config
    asked = [Path(argument).resolve() for argument in config.args]
    if asked != [ROOT / "tests"] or config.option.keyword or config.option.markexpr:
        pytest.skip("only some of the tests were asked for")
    collected = {item.path for item in request.session.items}
    assert set((ROOT / "tests").rglob("test_*.py")) - collected == set()
