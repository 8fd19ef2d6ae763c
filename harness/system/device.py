"""Names of the devices on which kernels run."""

from typing import Literal

Device = Literal["simulator", "cuda"]
