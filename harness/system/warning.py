"""Warnings of Python that do not concern the user of the harness."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_user_warnings() -> Iterator[None]:
    """Ignore `UserWarning`s, which torch issues about calls of the harness and of a reference.

    They tell the authors of these calls about speed or deprecation. On the harness's standard error
    they would look like messages about the submission.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
