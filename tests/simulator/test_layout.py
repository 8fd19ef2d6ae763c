"""The structures that the simulator's Python and C code share."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from harness.compiler.toolchain import find_c_compiler
from harness.simulator.layout.header import NAME, STRUCTURES, header
from harness.simulator.layout.structure import U32, Structure, structure
from harness.simulator.ptx.space import Space


def test_c_and_python_agree_on_every_field(tmp_path: Path) -> None:
    """Every shared structure has equal sizes and field offsets in C and in ctypes."""
    (tmp_path / NAME).write_text(header())
    lines = [f'#include "{NAME}"']
    for cls in STRUCTURES:
        name = cls.c_name
        lines.append(_assert(f"sizeof({name}) == {ctypes.sizeof(cls)}"))
        for field in cls.fields:
            place = getattr(cls, field)
            lines.append(_assert(f"offsetof({name}, {field}) == {place.offset}"))
            lines.append(_assert(f"sizeof((({name} *)0)->{field}) == {place.size}"))
    source = tmp_path / "agrees.c"
    source.write_text("\n".join(lines))
    command = [str(find_c_compiler().path), "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _assert(condition: str) -> str:
    return f'_Static_assert({condition}, "");'


def test_c_numbers_state_spaces_as_python_does() -> None:
    """The generated C header numbers the PTX state spaces as Python's `Space` does."""
    for space in (Space.GLOBAL, Space.SHARED, Space.LOCAL, Space.PARAM, Space.GENERIC):
        assert f"SIM_{space.name} = {space.number}" in header()


def test_a_field_without_a_type_in_c_is_refused() -> None:
    """A `Structure` with a field of type `int`, which has no C type, raises AttributeError."""
    with pytest.raises(AttributeError):

        @structure("wrong")
        class _Wrong(Structure):
            right: U32
            wrong: int
