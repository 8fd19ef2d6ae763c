"""The C header `layout.h`, which is generated from the Python declarations of this package."""

from __future__ import annotations

from enum import IntEnum

from harness.simulator.layout import calls, counting, memory, races, runtime
from harness.simulator.ptx.space import GENERIC_SHIFT, WINDOWS, Space

NAME = "layout.h"

STRUCTURES = (
    memory.AllocationEntry,
    memory.Window,
    memory.Spaces,
    memory.Shape,
    memory.TensorMapEntry,
    races.Actor,
    races.Cell,
    races.Area,
    races.RaceEvent,
    races.Log,
    races.Publication,
    races.Reach,
    races.Flag,
    races.Flags,
    races.Race,
    counting.SiteCounts,
    counting.SiteProfile,
    runtime.LaunchEntry,
    runtime.KernelEntry,
    runtime.DeviceEntry,
    *calls.STRUCTURES,
)
"""All structures. C requires a structure to be defined before another one contains it."""


def header() -> str:
    """Return the text of the C header `layout.h`.

    It declares the structures of this package and the enumerations that Python and C share.
    """
    spaces = (f"SIM_{space.upper()} = {space.number}" for space in (*WINDOWS, Space.GENERIC))
    return "\n".join(
        [
            "/* Written by harness/simulator/layout/header.py. */",
            "#pragma once",
            "#include <stddef.h>",
            "#include <stdint.h>",
            f"enum {{ {', '.join(spaces)} }};",
            f"enum {{ SIM_SPACE_SHIFT = {GENERIC_SHIFT}, SLOTS = {races.SLOTS} }};",
            f"enum {{ PUBLICATIONS = {races.PUBLICATIONS} }};",
            _enumeration("SIM_CALL", calls.RuntimeCall),
            _enumeration("SIM_VALUE", calls.Value),
            _enumeration("SIM_RAISED", calls.Raised),
            f"enum {{ SIM_CONJUGATED = {calls.CONJUGATED}, SIM_NEGATED = {calls.NEGATED} }};",
            f"enum {{ SIM_DEFAULT_STREAM = {calls.DEFAULT_STREAM} }};",
            f"#define SIM_HOST {calls.HOST:#x}u",
            f"enum {{ SIM_CHUNK_BYTES = {calls.CHUNK_BYTES} }};",
            *(f"typedef struct {cls.c_name} {cls.c_name};" for cls in STRUCTURES),
            *(cls.definition() for cls in STRUCTURES),
            "",
        ]
    )


def _enumeration(prefix: str, members: type[IntEnum]) -> str:
    """Return a C `enum` with the names and values of a Python enumeration.

    A name is in capitals and begins with the prefix and an underscore.
    """
    listed = ", ".join(f"{prefix}_{each.name.upper()} = {each.value}" for each in members)
    return f"enum {{ {listed} }};"
