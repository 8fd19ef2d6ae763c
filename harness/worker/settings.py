"""What a worker is told on its command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.build.flags import Device, Target
from harness.build.toolchain import CudaCompiler, HostCompiler, Toolchain
from harness.simulator.library import Libraries
from harness.worker.baselines import Kind


@dataclass(frozen=True)
class Settings:
    """How a worker builds and on what it runs."""

    submission: Path
    device: Device
    architecture: str
    cache: Path
    toolchain: Toolchain
    libraries: Libraries | None
    """The simulator's; None on a GPU."""
    schedule: int = 0
    """The simulator's order of blocks and warps."""
    cores: int = 1
    """Processes that may run blocks of one launch side by side on the simulator."""
    baseline: Kind | None = None
    """Which kind of baseline this is, `submission` being the reference; None for submissions."""

    @property
    def target(self) -> Target:
        """What extensions are compiled for."""
        return Target(self.device, self.architecture)

    def to_json(self) -> str:
        """Text for a command line."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The inverse of `to_json`."""
        data = json.loads(text)
        cuda, host = data["toolchain"]["cuda"], data["toolchain"]["host"]
        libraries = data["libraries"]
        return cls(
            submission=Path(data["submission"]),
            device=data["device"],
            architecture=data["architecture"],
            cache=Path(data["cache"]),
            toolchain=Toolchain(
                CudaCompiler(Path(cuda["home"]), cuda["version"], cuda["origin"]),
                HostCompiler(Path(host["path"]), host["version"]),
            ),
            libraries=libraries
            and Libraries(Path(libraries["runtime"]), Path(libraries["device"])),
            schedule=data["schedule"],
            cores=data["cores"],
            baseline=data["baseline"],
        )
