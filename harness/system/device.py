"""Where kernels can run."""

from typing import Literal

Device = Literal["simulator", "cuda"]
