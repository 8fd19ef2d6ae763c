"""Completion of a future with the result of a function."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

T = TypeVar("T")


def complete_from(future: Future[T], function: Callable[[], T]) -> None:
    """Complete a future with a function's result or exception; cancel it on CancelledError."""
    try:
        result = function()
    except CancelledError:
        future.cancel()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(result)
