"""The engine that evaluates on a Dask cluster of many machines, or on all GPUs of this machine.

The implementation is in harness/engines/cluster/. It is imported on demand, because Dask is an
optional dependency.
"""

from __future__ import annotations

import math
from dataclasses import replace
from importlib.util import find_spec

from harness.devices import Choice
from harness.engines.engine import Engine, EngineKind, Hardware, this_machine
from harness.system.errors import UsageError
from harness.system.processors import usable_cores


def _require_dask() -> None:
    if find_spec("distributed") is None:
        raise UsageError(
            "the engine dask needs the package distributed; run: pip install "
            "'cuda-submission-harness[dask]'"
        )


def _start(jobs: int, scheduler: str) -> Engine:
    _require_dask()
    from harness.engines.cluster.sender import DaskEngine

    return DaskEngine(jobs, scheduler)


def _hardware(device: Choice, scheduler: str) -> Hardware:
    _require_dask()
    if not scheduler:
        # The GPU's resource limits how many evaluations run on it. The other processors build.
        return replace(this_machine(device), jobs=usable_cores())
    from harness.engines.cluster.connection import hardware_of

    return hardware_of(device, scheduler)


ENGINE = EngineKind(math.inf, _start, _hardware, is_cluster=True)
