"""Encoding of frozen dataclasses as lines of JSON, and strict decoding."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

# When msgspec first converts to a class, it caches what it knows of the class's fields before that
# is complete. A second thread that reads the cache then crashes the process (msgspec 0.22).
_CONVERTING = threading.Lock()


def encode(record: object) -> str:
    """Return a dataclass instance as one line of JSON."""
    # Untrusted text may contain a lone surrogate. msgspec refuses to write one; `json` escapes it.
    return json.dumps(msgspec.to_builtins(record, enc_hook=_plain))


def decode(text: str, kind: type[T]) -> T:
    """Return the instance of the dataclass `kind` that `encode` wrote as `text`.

    Raises:
        ValueError: The text is not JSON or does not fit `kind`; the message says where.
    """
    return _converted(_parsed(text), kind)


def decode_of_schema(text: str, kind: type[T], schema: int, name: str, remedy: str) -> T:
    """Return the instance that `encode` wrote as `text`, if its field `schema` is `schema`.

    Args:
        text: One line of JSON.
        kind: The dataclass of the instance.
        schema: The only schema version that is accepted.
        name: The name of this kind of data in messages.
        remedy: The advice in the message about another schema version.

    Raises:
        ValueError: The text has another schema version, or does not fit `kind`.
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
    # Untrusted text may nest brackets to any depth.
    except RecursionError:
        raise ValueError("brackets within brackets, without an end") from None
    return parsed


def _converted(data: object, kind: type[T]) -> T:
    try:
        # The keys of a JSON object are strings; `str_keys` converts them where a record has
        # numbers.
        with _CONVERTING:
            return msgspec.convert(data, kind, dec_hook=_made, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _plain(value: object) -> object:
    # msgspec does not encode subclasses of str, and torch.__version__ is one.
    if isinstance(value, Path | str):
        return str(value)
    raise NotImplementedError(f"a {type(value).__name__} in a record")


def _made(kind: type[Any], value: Any) -> Any:
    if issubclass(kind, Path):
        return kind(value)
    if kind is object:
        # The field accepts a value of any type, such as a constructor's argument.
        return value
    raise NotImplementedError(f"a {kind.__name__} in a record")
