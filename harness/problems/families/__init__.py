"""Families (kinds) of references, each with its cases, values, error bounds and known mistakes.

A family depends on `harness.problems` alone and runs nothing but the reference. `judging`, `speed`
and `evaluate` call its methods and use the results.

To add a family, add one file here, or one folder if the file gets too long. The file needs a class
that derives from `Family`, or from a family of which the new one is a special case. The file
also needs one object of that class, called `FAMILY`. Modules that have a `FAMILY` are found without
registration. `family.py` lists all that a family can provide.
"""

import functools
import importlib
import pkgutil
from collections.abc import Mapping, Sequence

from torch import nn

from harness.problems.configuration import InputSpec
from harness.problems.families.family import Family
from harness.system.errors import HarnessError


class FamilyError(HarnessError, ValueError):
    """Error for an unknown or duplicate family name, or a reference that two families recognise.

    The message is one line.
    """


@functools.cache
def known() -> Mapping[str, Family]:
    """Return the families in this folder, by name.

    Raises:
        FamilyError: Two families have the same name.
    """
    families: dict[str, Family] = {}
    for module in pkgutil.iter_modules(__path__):
        family: Family | None = getattr(
            importlib.import_module(f"{__name__}.{module.name}"), "FAMILY", None
        )
        if family is None:
            continue
        if family.name in families:
            raise FamilyError(f"there are two families called {family.name}; rename one of them")
        families[family.name] = family
    return families


def named(name: str) -> Family:
    """Return the family with this name.

    Raises:
        FamilyError: There is no family with this name.
    """
    if name not in known():
        raise FamilyError(f"there is no family {name}; there are {', '.join(sorted(known()))}")
    return known()[name]


def family_of(
    model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
) -> Family:
    """Return the most special family that recognises a reference.

    A family is more special than the families that its class derives from.

    Args:
        model: A `Model`, built with its own arguments.
        arguments: The constructor arguments of `model`, by name.
        inputs: Shapes and dtypes of the inputs that `model` is made for.

    Raises:
        FamilyError: Two families recognise the reference, and neither is a special case of the
            other.
        Exception: Any exception that the reference raises.
    """
    fitting = [one for one in known().values() if one.recognises(model, arguments, inputs)]
    # A family that derives from another one is the more special of the two.
    special = [
        one
        for one in fitting
        if not any(isinstance(other, type(one)) for other in fitting if other is not one)
    ]
    if len(special) != 1:
        names = " and ".join(sorted(one.name for one in special))
        raise FamilyError(f"it is of the families {names}; one has to derive from the other")
    return special[0]
