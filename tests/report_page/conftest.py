"""The browser, and reports to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.report_page.data import pairs_of
from harness.report_page.page import page
from tests.report_page import samples
from tests.report_page.browser import Browser, why_none


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser for all tests; skipped where there is none."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    with Browser() as started:
        yield started


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two submissions, one of them wrong, the other one measured."""
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page(pairs_of(samples.reports(), samples.results()), "2 reports"))
    return path
