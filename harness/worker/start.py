"""Start of a submission's worker in a sandbox, connected to its device process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import IO

from harness.device.process import MODULE as DEVICE_MODULE
from harness.sandbox.confined import Confined, Confinement, ProcessTree, places
from harness.sandbox.fork_server import FIRST_DESCRIPTOR, Programs
from harness.sandbox.forked import CannotFork, Forked, fork_servers
from harness.sandbox.limits import Limits
from harness.simulator.native.library import Libraries
from harness.system import codec, interpreter
from harness.worker.settings import Settings, WorkerArguments

_MODULE = "harness.worker.inside.main"


def start_worker(
    settings: Settings, descriptor: int, output: IO[bytes], device: int
) -> ProcessTree:
    """Start a submission's worker, and return its process.

    The worker is forked from a process that has imported torch. If that is not possible, it is
    started anew.

    Args:
        settings: The worker's settings.
        descriptor: File descriptor of the worker's end of the connection to the supervisor.
        output: File for the worker's printed output.
        device: File descriptor of the worker's end of the connection to its device process.
    """
    libraries = settings.libraries
    limits = Limits.for_this_machine(settings.cores)
    # CUDA's own libraries may be beside the toolkit.
    readable = [*settings.readable, libraries.runtime, libraries.device, libraries.bindings]
    readable.append(settings.toolchain.cuda.home)
    placed = {**places(settings.submission), **settings.carried}
    told = replace(settings.instructions(limits, device), submission=placed[settings.submission])
    confinement = Confinement(
        tuple(readable),
        placed,
        limits,
        must_hold=settings.untrusted,
    )
    descriptors = [descriptor, device]
    with contextlib.suppress(CannotFork):
        return _forked(libraries, told, confinement, output, descriptors)
    words = [str(libraries.runtime), str(descriptor), codec.encode(told)]
    command = interpreter.command("harness.worker.inside.simulated", *words)
    return Confined(command, confinement, stdout=output, stderr=output, pass_fds=descriptors)


def programs_of(libraries: Libraries) -> Programs:
    """Return the programs that a fork server can fork: a worker and its simulated device.

    The server imports torch once, so that neither program has to.
    """
    # The simulator's runtime is loaded first. Its functions then take precedence over those of a
    # real CUDA runtime that torch loads.
    return Programs((libraries.runtime,), (_MODULE, DEVICE_MODULE))


def _forked(
    libraries: Libraries,
    told: WorkerArguments,
    confinement: Confinement,
    output: IO[bytes],
    descriptors: Sequence[int],
) -> ProcessTree:
    """Fork a worker from a process that has imported torch.

    Forking saves the import, which takes longer than the check of most cases.

    Raises:
        CannotFork: The worker cannot be forked on this machine.
    """
    channel, device = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + len(descriptors))
    words = [str(channel), codec.encode(replace(told, device=device))]
    server, title = fork_servers.get(programs_of(libraries)), told.submission.stem
    return Forked(server, _MODULE, words, title, confinement, output, descriptors)
