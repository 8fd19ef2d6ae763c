"""Examples in the docstrings of harness/."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.support import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "harness").rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    """Each example in a module's docstrings gives the output that it shows."""
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
