"""Declaration of structures as Python classes, for both ctypes and C.

A structure is a class with an annotation for each field, under `@structure`:

    @structure("sim_window")
    class Window(Structure):
        data: Annotated[Address, pointer("uint8_t")]
        size: U64

A type checker sees a field as the Python type of its value. The rest of the annotation has the
field's type for ctypes and its declaration for C.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints


@dataclass(frozen=True)
class Field:
    """The type of a structure's field.

    Attributes:
        type: The type for ctypes.
        declaration: The declaration in C, with `{}` in place of the name.

    >>> Field(ctypes.c_uint32, "uint32_t {}").declared("width")
    'uint32_t width;'
    """

    type: Any
    declaration: str

    def declared(self, name: str) -> str:
        """Return the field's line in C."""
        return f"{self.declaration.format(name)};"


class Structure(ctypes.Structure):
    """The base class of structures, which `@structure` completes.

    Attributes:
        c_name: The structure's name in C.
        fields: The fields by name, in the order of their declaration.
    """

    c_name: ClassVar[str]
    fields: ClassVar[Mapping[str, Field]]

    @classmethod
    def definition(cls) -> str:
        """Return the definition of the structure in C."""
        lines = [f"    {field.declared(name)}" for name, field in cls.fields.items()]
        return "\n".join([f"struct {cls.c_name} {{", *lines, "};"])


S = TypeVar("S", bound=Structure)


Address = int | None
"""The Python type of a pointer; None is NULL."""
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
    """Return a field that points to the C type `to`; Python sees its address."""
    return Field(ctypes.c_void_p, f"{to} *{{}}")


def characters(length: int) -> Field:
    """Return a field with a string of at most `length` bytes, including the NUL."""
    return Field(ctypes.c_char * length, f"char {{}}[{length}]")


def array(of: Any, length: int) -> Field:
    """Return a field with `length` consecutive values of one type above, or of a structure."""
    if isinstance(of, type) and issubclass(of, Structure):
        element = Field(of, f"{of.c_name} {{}}")
    else:
        element = next(iter(of.__metadata__))
    return Field(element.type * length, f"{element.declaration}[{length}]")


def structure(c_name: str) -> Callable[[type[S]], type[S]]:
    """Return a decorator that gives a class its ctypes fields, and the name `c_name` in C."""

    def complete(cls: type[S]) -> type[S]:
        hints = get_type_hints(cls, include_extras=True)
        cls.c_name = c_name
        cls.fields = {name: next(iter(hints[name].__metadata__)) for name in cls.__annotations__}
        cls._fields_ = [(name, field.type) for name, field in cls.fields.items()]
        return cls

    return complete
