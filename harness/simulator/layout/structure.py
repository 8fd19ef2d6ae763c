"""Declaration of structures as Python classes, from which ctypes and C definitions are made.

A structure is a class with the decorator `@structure` and an annotation for each field:

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
    """The type of a field of a structure, for ctypes and for C.

    Attributes:
        type: The ctypes type.
        declaration: The C declaration, with `{}` in place of the field's name.

    >>> Field(ctypes.c_uint32, "uint32_t {}").declared("width")
    'uint32_t width;'
    """

    type: Any
    declaration: str

    def declared(self, name: str) -> str:
        """Return the C declaration of a field of this type, with its name and a semicolon."""
        return f"{self.declaration.format(name)};"


class Structure(ctypes.Structure):
    """The base class of all structures; the decorator `@structure` sets its attributes.

    Attributes:
        c_name: The structure's name in C.
        fields: Type of each field by name, in the order of declaration.
    """

    c_name: ClassVar[str]
    fields: ClassVar[Mapping[str, Field]]

    @classmethod
    def definition(cls) -> str:
        """Return the C definition of the structure: `struct name { ... };`."""
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
    """Return the type of a field that is a pointer to type `to` in C and an address in Python."""
    return Field(ctypes.c_void_p, f"{to} *{{}}")


def characters(length: int) -> Field:
    """Return the type of a string field of at most `length` bytes, including the final NUL."""
    return Field(ctypes.c_char * length, f"char {{}}[{length}]")


def array(of: Any, length: int) -> Field:
    """Return the type of a field that is an array of `length` elements.

    Args:
        of: Type of an element: a subclass of `Structure`, or an annotation such as `U32`.
        length: Number of elements.
    """
    if isinstance(of, type) and issubclass(of, Structure):
        element = Field(of, f"{of.c_name} {{}}")
    else:
        element = next(iter(of.__metadata__))
    return Field(element.type * length, f"{element.declaration}[{length}]")


def structure(c_name: str) -> Callable[[type[S]], type[S]]:
    """Return a class decorator that makes a ctypes structure from the class's annotations.

    Args:
        c_name: The structure's name in C.
    """

    def complete(cls: type[S]) -> type[S]:
        hints = get_type_hints(cls, include_extras=True)
        cls.c_name = c_name
        cls.fields = {name: next(iter(hints[name].__metadata__)) for name in cls.__annotations__}
        cls._fields_ = [(name, field.type) for name, field in cls.fields.items()]
        return cls

    return complete
