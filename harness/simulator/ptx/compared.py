"""The integers with which kernels compare their parameters.

A kernel may take another path for one size. That size need not stand in the submission's text in a
way that can be read there, but the compiler puts it into the PTX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.simulator.ptx.fatbinary import FatBinaryError, device_code_of, images_in

# The smallest and the largest number that may be a size worth a check.
_LEAST, _MOST = 4, 100_000
_STEP = re.compile(
    r"ld\.param\.[usb](?:16|32|64)\s+(?P<loaded>%\w+)"
    r"|(?:mov|cvt)\.[usb\d.]+\s+(?P<copy>%\w+),\s*(?P<source>%\w+);"
    r"|setp\.\w+\.[usb](?:16|32|64)\s+%\w+,\s*(?P<compared>%\w+),\s*(?P<number>\d{1,6});"
)
_FUNCTION = re.compile(r"^\s*\.(?:visible\s+|weak\s+)?(?:entry|func)\b", re.MULTILINE)


def numbers_compared(library: bytes) -> frozenset[int]:
    """Return the integers from 4 to 100,000 with which a library's kernels compare parameters.

    Args:
        library: The content of a shared object that nvcc built with PTX in it.
    """
    return frozenset(
        number
        for image in images_in(library)
        for number in _in_ptx(_ptx_of(image))
        if _LEAST <= number <= _MOST
    )


def _ptx_of(image: bytes) -> str:
    try:
        return device_code_of(image).ptx
    except FatBinaryError:  # the device process says why, if it is asked to load the module
        return ""


def _in_ptx(ptx: str) -> Iterator[int]:
    """Yield each integer that PTX text compares with a parameter, or with a copy of one.

    >>> text = "ld.param.u32 %r1, [n]; cvt.u64.u32 %rd2, %r1; setp.ne.s64 %p1, %rd2, 97;"
    >>> [*_in_ptx(f".entry k {text} setp.ne.s32 %p2, %r5, 640;")]
    [97]
    """
    for function in _FUNCTION.split(ptx):
        parameters: set[str] = set()
        for step in _STEP.finditer(function):
            if step["loaded"]:
                parameters.add(step["loaded"])
            elif step["source"] in parameters:
                parameters.add(step["copy"])
            elif step["compared"] in parameters:
                yield int(step["number"])
