"""Fixtures for the tests of report pages: a browser, and a page."""

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
    """Yield one browser for all tests; skip the tests if this machine has no Chromium."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    with Browser() as started:
        yield started


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a report page on two submissions: a wrong one, and a measured one."""
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page(pairs_of(samples.reports(), samples.results()), "2 reports"))
    return path
