"""The names of public classes in the harness's source."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.support import ROOT


@pytest.mark.thorough
def test_no_public_class_name_occurs_twice() -> None:
    """No two public classes of harness/ have the same name, nested classes included."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "harness").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
