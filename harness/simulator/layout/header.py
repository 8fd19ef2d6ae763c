"""The C header with what Python declares."""

from __future__ import annotations

from harness.simulator.layout import counting, memory, races, runtime
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
    races.Event,
    races.Log,
    races.Race,
    counting.SiteCounts,
    counting.SiteProfile,
    counting.WorkEntry,
    runtime.PlaceEntry,
    runtime.LaunchEntry,
    runtime.KernelEntry,
    runtime.MachineEntry,
    runtime.DeviceEntry,
)
"""All there are. C wants a structure that is part of another one before that."""


def header() -> str:
    """The text of the header."""
    spaces = (f"SIM_{space.upper()} = {space.number}" for space in (*WINDOWS, Space.GENERIC))
    return "\n".join(
        [
            "/* Written by harness/simulator/layout/header.py. */",
            "#pragma once",
            "#include <stddef.h>",
            "#include <stdint.h>",
            f"enum {{ {', '.join(spaces)} }};",
            f"enum {{ SIM_SPACE_SHIFT = {GENERIC_SHIFT}, SLOTS = {races.SLOTS} }};",
            *(f"typedef struct {cls.c_name} {cls.c_name};" for cls in STRUCTURES),
            *(cls.definition() for cls in STRUCTURES),
            "",
        ]
    )
