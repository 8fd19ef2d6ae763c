"""The architectures for which nvcc's flags build device code, and the code that a device runs.

A device runs machine code (sm_XY) of its own major version that is not newer than itself, and PTX
(compute_XY) that is not newer than itself. A suffix `a` restricts code to one architecture, and `f`
to one family (CUDA C++ Programming Guide, "Compute Capabilities"). Machine code comes first. Which
PTX it was made from decides `__CUDA_ARCH__`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_OPTION = re.compile(
    r"--?(?P<name>gencode|generate-code|arch|gpu-architecture|code|gpu-code)(?:=(?P<value>.*))?$"
)
_CODE = re.compile(r"\b(compute|sm)_(\d+)([af]?)\b")


@dataclass(frozen=True)
class Image:
    """Device code that a build makes.

    Attributes:
        virtual: The architecture of the PTX that it is made from, such as `90a`.
        is_ptx: True for PTX itself, False for machine code.
        number: The architecture's number, such as 90.
        suffix: `a`, `f` or empty.
    """

    virtual: str
    is_ptx: bool
    number: int
    suffix: str

    @property
    def name(self) -> str:
        """The name that nvcc's option `-code` uses."""
        return f"{'compute' if self.is_ptx else 'sm'}_{self.number}{self.suffix}"

    def runs_on(self, device: int) -> bool:
        """Return whether a device whose architecture has this number runs the image."""
        if self.suffix == "a":
            return self.number == device
        is_in_family = self.number // 10 == device // 10
        return self.number <= device and (is_in_family or (self.is_ptx and not self.suffix))


def images_of(flags: Sequence[str]) -> tuple[tuple[Image, ...], list[str]]:
    """Return the images that nvcc's flags ask for, and the flags without those about architectures.

    There is no image if the flags name no architecture, or name them by words such as `native`.
    """
    pairs: list[str] = []
    arch = code = ""
    rest = []
    words = iter(flags)
    for flag in words:
        option = _OPTION.match(flag)
        if not option:
            rest.append(flag)
            continue
        value = option["value"] if option["value"] is not None else next(words, "")
        match option["name"]:
            case "gencode" | "generate-code":
                pairs.append(value)
            case "arch" | "gpu-architecture":
                arch = value
            case _:
                code = f"{code},{value}"
    found = [image for pair in pairs for image in _of_pair(*_parted(pair))]
    return (*found, *_of_pair(arch, code)), rest


def _parted(pair: str) -> tuple[str, str]:
    """Return the values of `arch` and `code` in the value of `-gencode`."""
    arch, _, code = pair.partition("code=")
    return arch, code


def _of_pair(arch: str, code: str) -> Iterator[Image]:
    """Yield the images of a pair of options `-arch` and `-code`; either may be empty."""
    virtual = _CODE.search(arch)
    # `-arch=sm_80` alone makes machine code and PTX, `-arch=compute_80` alone only PTX.
    both = re.sub(r"\bsm_(\w+)", r"sm_\1,compute_\1", arch)
    for kind, number, suffix in _CODE.findall(code or both):
        source = f"{virtual[2]}{virtual[3]}" if virtual else f"{number}{suffix}"
        yield Image(source, kind == "compute", int(number), suffix)


def image_for(images: Sequence[Image], device: int) -> Image | None:
    """Return the image that a device whose architecture has this number runs, or None."""
    able = [image for image in images if image.runs_on(device)]
    return max(able, key=lambda each: (not each.is_ptx, each.number, each.suffix), default=None)
