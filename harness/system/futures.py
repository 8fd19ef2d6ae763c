"""Futures that end as something else does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

T = TypeVar("T")


def settle(future: Future[T], function: Callable[[], T]) -> None:
    """Give a future what a function returns or raises; what was cancelled there is so here."""
    try:
        result = function()
    except CancelledError:
        future.cancel()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(result)
