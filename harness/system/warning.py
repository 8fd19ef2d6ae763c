"""Suppression of Python warnings that do not concern users of the harness."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_user_warnings() -> Iterator[None]:
    """Ignore `UserWarning`s in the context; torch issues them for the harness and references.

    Such warnings are about speed or deprecation, and are meant for authors of code that calls
    torch. In the output of the harness, they would look like messages about the submission.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
