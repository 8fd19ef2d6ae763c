"""Structures that are declared as classes, for ctypes and for C.

A structure is a class with an annotation for each field, under `@structure`:

    @structure("sim_window")
    class Window(Structure):
        data: Annotated[Address, pointer("uint8_t")]
        size: U64

To a type checker a field is what Python reads from it. The rest of its annotation tells ctypes its
type, and C its declaration.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints


@dataclass(frozen=True)
class Field:
    """The type of a field: what ctypes has for it, and its declaration in C with `{}` for a name.

    >>> Field(ctypes.c_uint32, "uint32_t {}").declared("width")
    'uint32_t width;'
    """

    type: Any
    declaration: str

    def declared(self, name: str) -> str:
        """The field's line in C."""
        return f"{self.declaration.format(name)};"


class Structure(ctypes.Structure):
    """What `@structure` completes."""

    c_name: ClassVar[str]
    fields: ClassVar[Mapping[str, Field]]
    """By name, in the order of their declaration."""

    @classmethod
    def definition(cls) -> str:
        """The structure in C."""
        lines = [f"    {field.declared(name)}" for name, field in cls.fields.items()]
        return "\n".join([f"struct {cls.c_name} {{", *lines, "};"])


S = TypeVar("S", bound=Structure)


Address = int | None
"""How Python reads a pointer: None is NULL."""
U8 = Annotated[int, Field(ctypes.c_uint8, "uint8_t {}")]
U16 = Annotated[int, Field(ctypes.c_uint16, "uint16_t {}")]
U32 = Annotated[int, Field(ctypes.c_uint32, "uint32_t {}")]
U64 = Annotated[int, Field(ctypes.c_uint64, "uint64_t {}")]
I64 = Annotated[int, Field(ctypes.c_int64, "int64_t {}")]
Int = Annotated[int, Field(ctypes.c_int, "int {}")]
Long = Annotated[int, Field(ctypes.c_long, "long {}")]
Size = Annotated[int, Field(ctypes.c_size_t, "size_t {}")]
Text = Annotated[bytes, Field(ctypes.c_char_p, "const char *{}")]
"""A string that ends with NUL."""


def pointer(to: str) -> Field:
    """A pointer to `to`, of which Python sees the address."""
    return Field(ctypes.c_void_p, f"{to} *{{}}")


def characters(length: int) -> Field:
    """A string within the structure, at most `length` bytes with the NUL."""
    return Field(ctypes.c_char * length, f"char {{}}[{length}]")


def array(of: Any, length: int) -> Field:
    """So many values in a row; `of` is one of the types above, or a structure."""
    if isinstance(of, type) and issubclass(of, Structure):
        element = Field(of, f"{of.c_name} {{}}")
    else:
        element = next(iter(of.__metadata__))
    return Field(element.type * length, f"{element.declaration}[{length}]")


def structure(c_name: str) -> Callable[[type[S]], type[S]]:
    """Gives the class its fields; C calls it `c_name`."""

    def complete(cls: type[S]) -> type[S]:
        hints = get_type_hints(cls, include_extras=True)
        cls.c_name = c_name
        cls.fields = {name: next(iter(hints[name].__metadata__)) for name in cls.__annotations__}
        cls._fields_ = [(name, field.type) for name, field in cls.fields.items()]
        return cls

    return complete
