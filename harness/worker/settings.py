"""How a submission's worker runs, and what of it the worker itself is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.compiler.flags import Target
from harness.compiler.toolchain import Toolchain
from harness.sandbox.limits import Limits
from harness.simulator.hardware.properties import DEVICE, DeviceProperties
from harness.simulator.native.library import Libraries
from harness.system.device import Device


@dataclass(frozen=True)
class Settings:
    """How a worker builds and on what it runs: for the trusted side."""

    submission: Path
    device: Device
    architecture: str
    cache: Path
    toolchain: Toolchain
    libraries: Libraries
    properties: DeviceProperties = DEVICE
    """The device's."""
    schedule: int = 0
    """The simulator's order of blocks and warps."""
    cores: int = 1
    """Processes that may run blocks of one launch side by side on the simulator."""
    readable: tuple[Path, ...] = ()
    """Files and folders that the submission may read beside its own."""
    carried: Mapping[Path, Path] = field(default_factory=dict)
    """What it may read that came from another machine: files, each with where it lies there."""
    untrusted: bool = False
    """Whether nothing may run unless it is in a sandbox."""
    run: str = ""
    """Whose failed builds are not tried again: `Request.run`."""

    @property
    def target(self) -> Target:
        """What extensions are compiled for: a device process runs their PTX, on a GPU too."""
        return Target("simulator", self.architecture)

    def instructions(self, limits: Limits, device: int) -> Instructions:
        """What the worker is told of all this; `device` is as there."""
        return Instructions(self.submission, self.libraries, device, self.properties, limits)


@dataclass(frozen=True)
class Instructions:
    """What a worker is told on its command line."""

    submission: Path
    libraries: Libraries
    device: int
    """The descriptor on which the device process answers."""
    properties: DeviceProperties
    limits: Limits
    """What it shall impose on itself."""
