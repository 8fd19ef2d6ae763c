"""A submission's module, which finds the reference's constants by name for each configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.worker.inside.submission_module import SubmissionModule

NAME = "reads_constants_of_its_reference"
MODEL = """
class ModelNew:
    def __init__(self):
        self.seen = {expression}

    def forward(self):
        return {expression}
"""


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    sys.modules.pop(NAME, None)


def module(folder: Path, text: str, **constants: str) -> SubmissionModule:
    """Return the module of a submission, executed with the reference's constants."""
    path = folder / f"{NAME}.py"
    path.write_text(text)
    found = SubmissionModule(path)
    found.execute(constants)
    return found


def test_functions_read_the_values_of_the_configuration(tmp_path: Path) -> None:
    """Constructor and forward read the current configuration's constants without a new import."""
    found = module(tmp_path, MODEL.format(expression="(dim, len(shape))"), dim="4", shape="(1, 2)")
    assert found.names_read() == []
    assert found.construct().seen == (4, 2)
    assert found.names_read() == ["dim", "shape"]
    assert not found.configure({"dim": "5", "shape": "(1, 2, 3)"})
    model = found.construct()
    assert model.seen == model.forward() == (5, 3)


def test_value_that_was_read_at_import_is_read_again(tmp_path: Path) -> None:
    """The file is executed again only if a constant changes that the file read at import."""
    text = "double = 2 * dim\n" + MODEL.format(expression="double, other")
    found = module(tmp_path, text, dim="4", other="1")
    assert found.names_read() == ["dim"]
    assert not found.configure({"dim": "4", "other": "2"})
    assert found.construct().seen == (8, 2)
    assert found.configure({"dim": "5", "other": "2"})
    assert found.construct().seen == (10, 2)


def test_own_definition_comes_first(tmp_path: Path) -> None:
    """A constant that the submission's file also defines has the file's value."""
    text = "if True:\n    dim = 3\n" + MODEL.format(expression="dim")
    found = module(tmp_path, text, dim="4")
    assert not found.configure({"dim": "5"})
    assert found.construct().seen == 3
    assert found.names_read() == []


def test_list_that_is_changed_is_a_copy(tmp_path: Path) -> None:
    """If a submission changes a list constant, the next configuration gets a new copy of it."""
    sizes = {"sizes": "[1, 2]"}
    found = module(tmp_path, MODEL.format(expression="sizes.append(3) or sizes"), **sizes)
    for _ in range(2):
        assert not found.configure(sizes)
        assert found.construct().seen == [1, 2, 3]


def test_name_of_neither_file_is_pythons_error(tmp_path: Path) -> None:
    """A name that neither submission nor reference defines raises NameError."""
    found = module(tmp_path, MODEL.format(expression="dimension"), dim="4")
    with pytest.raises(NameError, match="name 'dimension' is not defined"):
        found.construct()


def test_execution_that_failed_is_tried_again(tmp_path: Path) -> None:
    """If a submission raises at import for a constant, it raises again when configured again.

    A later configuration with another constant works.
    """
    text = "assert dim % 4 == 0, dim\n" + MODEL.format(expression="dim")
    found = module(tmp_path, text, dim="4")
    refused: dict[str, Any] = {"dim": "5"}
    for _ in range(2):
        with pytest.raises(AssertionError):
            found.configure(refused)
    assert found.configure({"dim": "8"})
    assert found.construct().seen == 8
