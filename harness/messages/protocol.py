"""Protocols: classes of requests, of which each names the class of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar, get_args

from msgspec import Struct
from msgspec.json import Decoder

A = TypeVar("A")
K = TypeVar("K")


class Asked(Struct, Generic[A], frozen=True, tag=True, forbid_unknown_fields=True):
    """The base class of requests whose answer is an instance of `A`."""


class Told(Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The base class of answers, and of requests that are sent before an answer."""


@dataclass(frozen=True)
class Protocol:
    """The messages between two processes.

    The decoders are made once, when the classes are defined: two threads must not be the first to
    use a class (see system/codec.py).

    Attributes:
        requests: Decoder of every request.
        answers: For each class of requests, the decoder of what may come until it is answered.
    """

    requests: Decoder[Asked[Any]]
    answers: Mapping[type[Asked[Any]], Decoder[Any]]

    @staticmethod
    def of(kinds: Sequence[type[Asked[Any]]], others: Sequence[type[Told]]) -> Protocol:
        """Return the protocol of these requests.

        Args:
            kinds: The classes of requests.
            others: Classes that may come in place of any answer, or before it.
        """
        answers = {kind: Decoder(reduce(or_, others, _answer_to(kind))) for kind in kinds}
        return Protocol(Decoder(reduce(or_, kinds)), answers)


def _answer_to(kind: type[Asked[Any]]) -> Any:
    (answer,) = get_args(kind.__orig_bases__[0])  # type: ignore[attr-defined]
    return answer
