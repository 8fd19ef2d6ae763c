"""Kinds of failures, grouped by message: a report shows one kind and counts the others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.problems.grid import OWN
from harness.records.report import CaseReport, OtherFailure

# Numbers differ from case to case. Digits in names and line numbers after a file's name do not.
_NUMBER = re.compile(r"(?<![:\w])\d+(?:[.,]\d+)*%?")
_LIST = re.compile(r"([\[(])#(, ?#)*([\])])")
# The block and thread of a finding, and how often it occurred.
_PLACE = re.compile(r",( the first access by)? block \(#\) thread \(#\)( and # more)?")


def shown_kind(cases: Sequence[CaseReport]) -> list[CaseReport]:
    """Return the cases that fail like the problem's own configuration, or else like most cases.

    Args:
        cases: The cases with the submission's verdict, in the order of the grid; at least one.
    """
    groups = _groups(cases)
    own = (group for group in groups if any(case.label in OWN for case in group))
    return next(own, max(groups, key=len))


def other_kinds(
    cases: Sequence[CaseReport], shown: Sequence[CaseReport]
) -> tuple[OtherFailure, ...]:
    """Return the kinds of failure that the report does not explain, the most frequent first.

    Args:
        cases: All failing cases.
        shown: The cases of the kind that the report shows.
    """
    known = {case.id for case in shown}
    rest = [group for group in _groups(cases) if group[0].id not in known]
    rest.sort(key=len, reverse=True)
    return tuple(OtherFailure(len(group), group[0].id, group[0].message) for group in rest)


def _groups(cases: Sequence[CaseReport]) -> list[list[CaseReport]]:
    groups: dict[tuple[str, str], list[CaseReport]] = {}
    for case in cases:
        groups.setdefault((case.verdict, kind_of(case.message)), []).append(case)
    return list(groups.values())


def kind_of(message: str) -> str:
    """Return a message without the parts that differ from case to case.

    >>> kind_of("ModelNew has no conv1d [64, 3]; 2 of 4 elements (50.00%) in k at a.py:18")
    'ModelNew has no conv1d [#]; # of # elements (#) in k at a.py:18'
    >>> kind_of("4 bytes past the end in k at a.py:18, block (0,0,0) thread (3,0,0) and 6 more")
    '# bytes past the end in k at a.py:18'
    >>> kind_of("no barrier between them in k, the first access by block (0,0,0) thread (3,0,0)")
    'no barrier between them in k'
    """
    return _PLACE.sub("", _LIST.sub(r"\1#\3", _NUMBER.sub("#", message)))
