"""Settings of a submission's worker, and the part of them that the worker itself gets."""

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
    """Settings of a worker's builds and of its device, for the trusted side.

    Attributes:
        submission: The submission's file.
        device: The device on which its kernels run.
        architecture: Architecture that its kernels are compiled for.
        cache: Folder of builds.
        toolchain: Compilers.
        libraries: The simulator's shared libraries.
        properties: The device's properties.
        schedule: The simulator's order of blocks and warps.
        cores: Number of processes that may run blocks of one launch side by side on the simulator.
        readable: Files and folders that the submission may read besides its own.
        carried: Readable files from another machine: the file here, and its path there.
        untrusted: Whether nothing may run outside of a sandbox.
        run: Name of the run, in which a failed build is not tried again; see `Request.run`.
    """

    submission: Path
    device: Device
    architecture: str
    cache: Path
    toolchain: Toolchain
    libraries: Libraries
    properties: DeviceProperties = DEVICE
    schedule: int = 0
    cores: int = 1
    readable: tuple[Path, ...] = ()
    carried: Mapping[Path, Path] = field(default_factory=dict)
    untrusted: bool = False
    run: str = ""

    @property
    def target(self) -> Target:
        """Target that extensions are compiled for: PTX for a device process, also on a GPU."""
        return Target("simulator", self.architecture)

    def instructions(self, limits: Limits, device: int) -> Instructions:
        """Return the worker's own part of the settings; the arguments are as in `Instructions`."""
        return Instructions(self.submission, self.libraries, device, self.properties, limits)


@dataclass(frozen=True)
class Instructions:
    """Settings that a worker gets on its command line.

    Attributes:
        submission: The submission's file, at its path in the sandbox.
        libraries: The simulator's shared libraries.
        device: Descriptor of the connection to the device process.
        properties: The device's properties.
        limits: Limits that the worker imposes on itself.
    """

    submission: Path
    libraries: Libraries
    device: int
    properties: DeviceProperties
    limits: Limits
