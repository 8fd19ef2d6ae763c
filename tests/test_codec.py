"""JSON encoding of records (dataclasses) that go to other processes or to disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from threading import Barrier
from typing import Literal

import pytest
import torch

from harness.system import codec


@dataclass(frozen=True)
class Part:
    """A record for use as a field of `Record`; its own fields are a literal and nested tuples."""

    kind: Literal["small", "large"]
    sizes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Record:
    """A record with every kind of field that the harness's records have."""

    path: Path
    parts: tuple[Part, ...]
    numbers: Mapping[int, float] = field(default_factory=dict)
    text: str = ""
    share: float | None = None
    schema: int = 2


PARTS = (Part("small", ((1, 2), ())),)
RECORD = Record(Path("a b.py"), PARTS, {1: 2.5}, "line\n\ud800", 0.5)


def test_record_comes_back_equal() -> None:
    """An encoded record is one line, and decodes to an equal record.

    The record has a path, tuples, a mapping with integer keys and a lone surrogate.
    """
    text = codec.encode(RECORD)
    assert "\n" not in text
    assert codec.decode(text, Record) == RECORD


def test_text_of_another_class_is_text() -> None:
    """A subclass of str, such as the type of torch.__version__, is encoded like a str."""
    assert type(torch.__version__) is not str
    text = codec.encode(replace(RECORD, text=torch.__version__))
    assert codec.decode(text, Record).text == str(torch.__version__)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"small"', '"odd"', "Invalid enum value 'odd'.*parts"),
        ("[1, 2]", '[1, "2"]', "Expected `int`, got `str`.*sizes"),
        ("0.5", "true", "Expected `float | null`, got `bool`"),
        ('"a b.py"', "7", "path"),
        ('"path"', '"other"', "missing required field `path`"),
        ("{", "", "Expecting value|Extra data"),
        ("[[1, 2], []]", "[" * 10_000 + "]" * 10_000, "brackets|recursion|Expected"),
    ],
)
def test_what_does_not_fit_is_refused(old: str, new: str, message: str) -> None:
    """Broken JSON raises ValueError, and so does a missing field or a field of the wrong type."""
    text = codec.encode(RECORD)
    assert old in text
    with pytest.raises(ValueError, match=message):
        codec.decode(text.replace(old, new, 1), Record)


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": 1}', "7"])
def test_another_schema_is_told(text: str) -> None:
    """JSON with another schema number, or without one, raises ValueError.

    The message contains the hint that the caller has given.
    """
    with pytest.raises(ValueError, match="not a record of schema 2; write it again"):
        codec.decode_of_schema(text, Record, 2, "record", "write it again")


def test_schema_that_fits_by_name_only_is_refused() -> None:
    """JSON with the right schema number but other fields raises ValueError, which names a field."""
    with pytest.raises(ValueError, match=r"a record that does not fit schema 2: .*path"):
        codec.decode_of_schema('{"schema": 2}', Record, 2, "record", "write it again")


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let Python change to another thread as often as it can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_decode_a_class_for_the_first_time_at_once() -> None:
    """Several threads may decode a class that none has decoded before; all get equal records.

    Without a lock, most runs of this test end in a segmentation fault.
    """
    text = codec.encode({"first": {"a": 1}, "second": {"b": 2}})
    together = Barrier(4)

    def decode(kind: type[object]) -> object:
        together.wait()
        return codec.decode(text, kind)

    with ThreadPoolExecutor(4) as threads:
        for _ in range(50):
            first = make_dataclass("First", [("a", "int | None")])
            second = make_dataclass("Second", [("b", "int | None")])
            both = make_dataclass("Both", [("first", first), ("second", second)])
            assert list(threads.map(decode, [both] * 4)) == [both(first(1), second(2))] * 4
