"""Settings for the supervisor of a worker, and the settings that the worker itself gets."""

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
    """Settings of a submission's worker, its builds and its device, for the supervisor.

    Attributes:
        submission: The submission's file.
        device: The device on which the submission's kernels run.
        architecture: GPU architecture that the submission's kernels are compiled for.
        cache: Folder in which finished builds are stored.
        toolchain: The compilers.
        libraries: The simulator's shared libraries.
        properties: The properties that the device reports.
        schedule: Number of the order in which the simulator runs blocks and warps.
        cores: Number of processes that may run blocks of one launch side by side on the simulator.
        readable: Files and folders that the submission may read besides its own.
        carried: Readable files that came from another machine: for each copy here, the original
            path, at which the sandbox shows the copy.
        untrusted: Whether to refuse to run the submission or a compiler outside of a sandbox.
        run: Name of the harness's run. A build that failed in a run is not tried again in the run;
            see `Request.run`.
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
        """Target of builds: PTX in any case, because a GPU's device process loads PTX, too."""
        return Target("simulator", self.architecture)

    def instructions(self, limits: Limits, device: int) -> WorkerArguments:
        """Return the settings for the worker; `limits` and `device` are as in `WorkerArguments`."""
        return WorkerArguments(self.submission, self.libraries, device, self.properties, limits)


@dataclass(frozen=True)
class WorkerArguments:
    """Settings that a worker gets on its command line.

    Attributes:
        submission: The submission's file, at its path in the sandbox.
        libraries: The simulator's shared libraries.
        device: File descriptor of the connection to the device process.
        properties: The properties that the device reports.
        limits: Resource limits that the worker imposes on itself.
    """

    submission: Path
    libraries: Libraries
    device: int
    properties: DeviceProperties
    limits: Limits
