"""Packages that a reference imports and that are not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

_PACKAGES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "PyYAML",
}
"""Packages whose modules have another name."""


def why_missing(error: BaseException, folder: Path) -> str | None:
    """Return which module a reference lacks and how to get it; None if no module is missing.

    Args:
        error: The exception that the reference raised.
        folder: The folder of the reference.
    """
    for each in _chain(error):
        if isinstance(each, ModuleNotFoundError) and each.name:
            name = each.name.partition(".")[0]
            if (folder / name).is_dir() or (folder / f"{name}.py").is_file():
                return f"imports {name}, which lies beside it; copy what it needs into the file"
            if not _is_known(name):
                package = _PACKAGES.get(name, name.replace("_", "-"))
                return (
                    f"needs the package {package}, which is not installed; "
                    f"run: pip install {package}"
                )
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and the whole chain of its causes and contexts."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


def _is_known(name: str) -> bool:
    """Return whether a package is installed; if so, only a module inside it can be missing."""
    is_loaded = name in sys.modules or name in sys.stdlib_module_names
    return is_loaded or PathFinder.find_spec(name) is not None
