"""Helpers for futures whose result comes from another source."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

T = TypeVar("T")


def complete_from(future: Future[T], function: Callable[[], T]) -> None:
    """Set a future to what a function returns or raises; CancelledError cancels the future."""
    try:
        result = function()
    except CancelledError:
        future.cancel()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(result)
