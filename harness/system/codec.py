"""Frozen dataclasses as lines of JSON, and back; what does not fit its type is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encode(record: object) -> str:
    """One line of JSON."""
    # Text of strangers may hold half a surrogate pair, which only the standard library writes.
    return json.dumps(msgspec.to_builtins(record, enc_hook=_plain))


def decode(text: str, kind: type[T]) -> T:
    """Make a record from what `encode` gave.

    Raises:
        ValueError: It is no JSON, or does not fit; the message says where.
    """
    return _converted(_parsed(text), kind)


def decode_of_schema(text: str, kind: type[T], schema: int, name: str, remedy: str) -> T:
    """Make a record from what `encode` gave, if its field `schema` says so.

    Args:
        text: A line.
        kind: Of which dataclass.
        schema: The only one that will do.
        name: What a message calls the record.
        remedy: What a message says to do where it is of another schema.

    Raises:
        ValueError: It is of another schema, or no such record at all.
    """
    data = _parsed(text)
    if not isinstance(data, dict) or data.get("schema") != schema:
        raise ValueError(f"not a {name} of schema {schema}; {remedy}")
    try:
        return _converted(data, kind)
    except ValueError as error:
        raise ValueError(f"a {name} that does not fit schema {schema}: {error}") from None


def _parsed(text: str) -> object:
    try:
        parsed: object = json.loads(text)
    except RecursionError:
        raise ValueError("brackets within brackets, without an end") from None
    return parsed


def _converted(data: object, kind: type[T]) -> T:
    try:
        # Keys of JSON are text.
        return msgspec.convert(data, kind, dec_hook=_made, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _plain(value: object) -> object:
    # msgspec takes no subclass of str for one, and torch.__version__ is of such a class.
    if isinstance(value, Path | str):
        return str(value)
    raise NotImplementedError(f"a {type(value).__name__} in a record")


def _made(kind: type[Any], value: Any) -> Any:
    if issubclass(kind, Path):
        return kind(value)
    if kind is object:
        # A value of any type, such as a constructor's argument.
        return value
    raise NotImplementedError(f"a {kind.__name__} in a record")
