"""The tests that pytest collects once for each submission (see pytest_plugin.py)."""

from __future__ import annotations

import pytest

from harness.suite import PendingEvaluation


def test_builds(evaluation: PendingEvaluation) -> None:
    """The file can be imported, and every extension that it loads at import compiles."""
    problem = evaluation.wait_until_imported()
    if problem is not None:
        pytest.fail(problem, pytrace=False)


def test_matches_reference(evaluation: PendingEvaluation, case: str) -> None:
    """Every output of one configuration is what the reference gives, within its error bound."""
    report = evaluation.wait_for_case(case)
    if report.verdict in ("declined", "not run"):
        pytest.skip(f"{report.verdict}: {report.message}")
    if report.verdict != "passed":
        pytest.fail(evaluation.explain(case), pytrace=False)
