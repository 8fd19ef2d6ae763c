"""Kinds of references, and what is known of each: its cases, values, bound, products and mistakes.

Who asks a family, and what becomes of its answers, is in judging/, speed/ and evaluate: it knows of
`problems/` alone, and runs nothing but the reference.

To add one, add one file, or one folder where a file gets too long: a class that derives from
`AnyReference`, or from the family that it is a special case of, and `FAMILY`, one object of it.
Nothing else has to know: modules that have a `FAMILY` are found here. `family.py` says what it can
answer.
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
    """A name of no family, or a reference of two; the message is one line."""


@functools.cache
def known() -> Mapping[str, Family]:
    """The families in this folder, by name.

    Raises:
        FamilyError: Two have one name.
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
    """The family of that name.

    Raises:
        FamilyError: There is none.
    """
    if name not in known():
        raise FamilyError(f"there is no family {name}; there are {', '.join(sorted(known()))}")
    return known()[name]


def family_of(
    model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
) -> Family:
    """The most special family that recognises a reference: none of the others derives from it.

    Args:
        model: A `Model`, built with its own arguments.
        arguments: Those, by name.
        inputs: The inputs that it is made for.

    Raises:
        FamilyError: There are two such, neither of which is a special case of the other.
        Exception: Whatever the reference raises.
    """
    fitting = [one for one in known().values() if one.recognises(model, arguments, inputs)]
    special = [
        one
        for one in fitting
        if not any(isinstance(other, type(one)) for other in fitting if other is not one)
    ]
    if len(special) != 1:
        names = " and ".join(sorted(one.name for one in special))
        raise FamilyError(f"it is of the families {names}; one has to derive from the other")
    return special[0]
