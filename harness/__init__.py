"""A correctness and regression test harness for CUDA kernel submissions.

The names in `__all__` are the interface for other programs; docs/python.md explains them.
"""

import importlib
import logging
from concurrent.futures import as_completed
from typing import TYPE_CHECKING

from harness.version import __version__

if TYPE_CHECKING:
    from harness.client import Client, check
    from harness.options import Options
    from harness.records.report import CaseReport, Report
    from harness.speed.contender import ContenderError
    from harness.speed.result import SpeedResult
    from harness.speed.reward import Reward, reward

__all__ = [
    "CaseReport",
    "Client",
    "ContenderError",
    "Options",
    "Report",
    "Reward",
    "SpeedResult",
    "__version__",
    "as_completed",
    "check",
    "reward",
]

# The module of each name. Names are imported on demand: pytest loads this package in every
# repository of an environment, and importing torch takes seconds.
_HOMES = {
    "CaseReport": "harness.records.report",
    "Client": "harness.client",
    "ContenderError": "harness.speed.contender",
    "Options": "harness.options",
    "Report": "harness.records.report",
    "Reward": "harness.speed.reward",
    "SpeedResult": "harness.speed.result",
    "check": "harness.client",
    "reward": "harness.speed.reward",
}

# A torch built for CUDA logs a warning when torch.utils.cpp_extension is imported without a GPU.
# The simulator needs none, so the warning is dropped.
logging.getLogger("torch.utils.cpp_extension").addFilter(
    lambda record: not record.getMessage().startswith("No CUDA runtime is found")
)


if not TYPE_CHECKING:  # type checkers would otherwise accept any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name]), name)
