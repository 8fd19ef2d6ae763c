"""Which of a submission's failures tells most, where its cases fail in different ways."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.problems.grid import OWN
from harness.records.report import CaseReport, OtherFailure

# Numbers differ from case to case; those in names and after a file's name do not.
_NUMBER = re.compile(r"(?<![:\w])\d+(?:[.,]\d+)*%?")
_LIST = re.compile(r"([\[(])#(, ?#)*([\])])")
# Where it happened first, and how often.
_PLACE = re.compile(r", block \(#\) thread \(#\)( and # more)?")


def of_one_kind(cases: Sequence[CaseReport]) -> list[CaseReport]:
    """Those that fail as the problem's own configuration does, or else as most do.

    Args:
        cases: What failed, in the order of the grid; at least one.
    """
    groups = _groups(cases)
    own = (group for group in groups if any(case.label in OWN for case in group))
    return next(own, max(groups, key=len))


def others(cases: Sequence[CaseReport], shown: Sequence[CaseReport]) -> tuple[OtherFailure, ...]:
    """The other kinds, most frequent first."""
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
    """A message without what differs from case to case.

    >>> kind_of("ModelNew has no conv1d [64, 3]; 2 of 4 elements (50.00%) in k at a.py:18")
    'ModelNew has no conv1d [#]; # of # elements (#) in k at a.py:18'
    >>> kind_of("4 bytes past the end in k at a.py:18, block (0,0,0) thread (3,0,0) and 6 more")
    '# bytes past the end in k at a.py:18'
    """
    return _PLACE.sub("", _LIST.sub(r"\1#\3", _NUMBER.sub("#", message)))
