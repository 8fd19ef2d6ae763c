"""The releases of torch that this version of the harness was tested with.

The simulator is built against torch's C++ internals, and the harness replaces the compile step of
`load_inline`. Neither is a stable interface of torch. The harness also works with other releases,
but prints a one-line note.
"""

from __future__ import annotations

import re

from harness.compiler.flags import torch_version

OLDEST_TORCH = (2, 9)
NEWEST_TORCH = (2, 15)
"""The newest tested release; docs/machines.md lists the tests.

CONTRIBUTING.md explains how to widen the range.
"""

_LAST = f"{NEWEST_TORCH[0]}.{NEWEST_TORCH[1]}"
LAST_TRIED = f"the newest torch tested with this version of the harness is {_LAST}"
INSTALL_LAST_TRIED = f"pip install 'torch=={_LAST}.*'"


def torch_note(version: str | None = None) -> str:
    """Return a one-line note if a release of torch was not tested with the harness, else "".

    By default, `version` is the installed release.

    >>> torch_note("2.99.1+cu140")
    'torch 2.99 was not tested with this version of the harness'
    >>> torch_note("2.13.0+cpu")
    ''
    """
    release = re.match(r"(\d+)\.(\d+)", torch_version() if version is None else version)
    if release is None:
        return f"torch {version or torch_version()} was not tested with this version of the harness"
    major, minor = int(release[1]), int(release[2])
    if OLDEST_TORCH <= (major, minor) <= NEWEST_TORCH:
        return ""
    return f"torch {major}.{minor} was not tested with this version of the harness"
