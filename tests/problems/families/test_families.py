"""Tests of the families of references; a new family is one file in the package `families`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.problems import families
from harness.problems.problem import load
from harness.system import interpreter
from tests.support import REFERENCE, Outcome, pytest_arguments, run

SCALING = """
from harness.problems.configuration import Configuration
from harness.problems.families.family import Family


class Scaling(Family):
    name = "scaling"

    def recognises(self, model, arguments, inputs):
        return set(arguments) == {"scale"}

    def covering(self, taken, strength):
        for scale in (0.5, 2.0):
            yield Configuration(
                arguments={**taken, "scale": scale},
                input_shapes=((strength, 5),),
                input_dtypes=("float32",),
            )


FAMILY = Scaling()
"""

DEPTHWISE = """
from harness.problems.families.conv_transpose1d import ConvTranspose1d


class Depthwise(ConvTranspose1d):
    name = "depthwise"

    def recognises(self, model, arguments, inputs):
        is_one = super().recognises(model, arguments, inputs)
        return is_one and arguments["groups"] == arguments["in_channels"]

    def spell(self, configuration):
        return "depthwise-" + super().spell(configuration)


FAMILY = Depthwise()
"""

SCALED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return self.scale * x


def get_inputs():
    return [torch.rand(2, 3)]


def get_init_inputs():
    return [3.0]
"""

SUBMISSION = """
class ModelNew:
    def __init__(self, {parameters}):
        pass
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return the folder of a copy of the package `harness`, to which a family can be added."""
    copy = tmp_path / "installed" / "harness"
    shutil.copytree(interpreter.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def collect(package: Path, reference: str, parameters: str) -> Outcome:
    """Run `pytest --collect-only` with a copy of the harness on a submission.

    Args:
        package: The copy's folder.
        reference: Text of the reference.
        parameters: Parameters of the submission's constructor.
    """
    folder = package.parents[1]
    (folder / "reference.py").write_text(reference)
    (folder / "mine.py").write_text(SUBMISSION.format(parameters=parameters))
    arguments = pytest_arguments("mine.py", "--reference", "reference.py", "--collect-only", "-q")
    command = interpreter.command("pytest", *arguments)
    return run(command, folder, PYTHONPATH=str(package.parent))


@pytest.mark.thorough
def test_family_that_is_one_new_file_is_found(package: Path) -> None:
    """A family in a new file of `families` is used: the configurations that it yields are cases."""
    (package / "problems" / "families" / "scaling.py").write_text(SCALING)
    done = collect(package, SCALED, "scale")
    assert done.status == 0, done.out
    ids = [line.partition("[")[2] for line in done.out.splitlines()]
    cases = [name for name in ids if "reduced" in name or "scale" in name]
    assert [name.rstrip("]").removeprefix("reference-") for name in cases] == [
        "reduced",
        "scale0.5-2x5",
        "scale2.0-2x5",
    ]


@pytest.mark.thorough
def test_special_case_of_a_family_goes_before_it(package: Path) -> None:
    """A reference that a family and its derived class both recognise is of the derived family."""
    (package / "problems" / "families" / "depthwise.py").write_text(DEPTHWISE)
    reference = (REFERENCE / "conv_transpose1d.py").read_text()
    parameters = "in_channels, out_channels, kernel_size, groups=1"
    assert "depthwise-" not in collect(package, reference, parameters).out
    of_one_channel = reference.replace("in_channels = 128", "in_channels = 1")
    assert of_one_channel != reference
    assert "depthwise-k3-s1" in collect(package, of_one_channel, parameters).out


@pytest.mark.thorough
def test_reference_of_two_families_is_refused(package: Path) -> None:
    """A reference that two families recognise, neither derived from the other, is refused.

    The error bounds of the families differ, and nothing says which bound is right.
    """
    for name in ("scaling", "doubling"):
        text = SCALING.replace("scaling", name)
        (package / "problems" / "families" / f"{name}.py").write_text(text)
    done = collect(package, SCALED, "scale")
    assert done.status != 0
    assert "reference.py: it is of the families doubling and scaling; one has to derive" in (
        done.out + done.err
    )


def test_reference_that_is_no_known_one_gets_the_fallback(tmp_path: Path) -> None:
    """A reference that no family recognises is of the family `any_reference`."""
    path = tmp_path / "scaled.py"
    path.write_text(SCALED)
    family = load(path).family
    assert family is families.named("any_reference")


def test_transposed_convolutions_are_known() -> None:
    """All references in the folder `reference` are of the family `conv_transpose1d`."""
    for path in REFERENCE.glob("*.py"):
        assert load(path).family is families.named("conv_transpose1d")


def test_unknown_name_is_told() -> None:
    """The name of an unknown family raises a FamilyError that lists the known names."""
    with pytest.raises(families.FamilyError, match="no family softmax; there are any_reference, "):
        families.named("softmax")
