"""Tests whether the sandbox's layers hold on this machine, by attempts to get through them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Literal, get_args

from harness.sandbox import bubblewrap, population
from harness.sandbox.confined import Confined, Confinement
from harness.sandbox.fork_server import Programs
from harness.sandbox.forked import CannotFork, Forked, ForkServer
from harness.sandbox.limits import Limits
from harness.system import interpreter
from harness.system.errors import UsageError
from harness.system.files import require

Layer = Literal["files", "network", "processes", "privileges", "environment", "limits"]
LAYERS: tuple[Layer, ...] = get_args(Layer)

_PROBE = "harness.sandbox.probe"
_VARIABLE = "HARNESS_SANDBOX_PROBE"
_UNTRIED = "could not be tried"
_SECONDS = 60.0
# The probe starts one thread more than this limit. A low limit makes that fast.
_THREADS = 400


@dataclass(frozen=True)
class LayerState:
    """The result of testing one layer of the sandbox.

    Attributes:
        layer: Name of the layer, such as `files` or `network`.
        hole: What was possible through the layer, such as `can read FILE`; empty if the layer
            holds.
    """

    layer: Layer
    hole: str


def require_for(readable: Sequence[Path], *, untrusted: bool) -> None:
    """Check that the readable paths exist and, if `untrusted`, that every layer holds.

    Raises:
        UsageError: A path does not exist, or some layer of the sandbox does not hold.
    """
    require(readable, "--readable ")
    if untrusted and (reason := why_not()):
        raise UsageError(f"--untrusted: {reason}")


def examine() -> list[LayerState]:
    """Test all layers in two confined processes, one newly started and one forked.

    Both processes are confined like a submission. A layer holds only if it holds in both processes.
    """
    ways = [_holes(_begun), *([_holes(_forked)] if bubblewrap.usable() else [])]
    return [
        LayerState(layer, next(filter(None, (holes.get(layer, _UNTRIED) for holes in ways)), ""))
        for layer in LAYERS
    ]


def why_not() -> str:
    """Return one line on the layers that do not hold here, with a remedy; empty if all hold."""
    open_layers = [state for state in examine() if state.hole]
    if not open_layers:
        return ""
    said = ", ".join(f"{state.layer} ({state.hole})" for state in open_layers)
    cause = why_open()
    return f"these layers of the sandbox do not hold here: {said}" + (f"; {cause}" if cause else "")


def why_open() -> str:
    """Return why some layer of the sandbox does not hold here, with a remedy; "" if unknown."""
    return bubblewrap.why_not_usable() or population.why_not()


Begin = Callable[[str, Confinement, IO[bytes]], AbstractContextManager[Confined]]


@contextmanager
def _begun(attempt: str, confinement: Confinement, output: IO[bytes]) -> Iterator[Confined]:
    command = interpreter.command(_PROBE, attempt)
    process = Confined(command, confinement, stdout=output)
    try:
        yield process
    finally:
        process.end()


@contextmanager
def _forked(attempt: str, confinement: Confinement, output: IO[bytes]) -> Iterator[Confined]:
    with contextlib.closing(ForkServer(Programs((), (_PROBE,)))) as server:
        process = Forked(server, _PROBE, [attempt], "probe", confinement, output, [])
        try:
            yield process
        finally:
            process.end()


def _holes(begin: Begin) -> dict[str, str]:
    confinement = Confinement(limits=replace(Limits.for_this_machine(), threads=_THREADS))
    with (
        tempfile.NamedTemporaryFile(prefix="harness-secret-") as secret,
        tempfile.TemporaryFile() as output,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        attempt = {
            "secret": secret.name,
            "port": server.getsockname()[1],
            "variable": _VARIABLE,
            "limits": asdict(confinement.limits),
        }
        os.environ[_VARIABLE] = "1"
        try:
            with begin(json.dumps(attempt), confinement, output) as process:
                process.wait(_SECONDS)
        except CannotFork:
            # On such a machine submissions are started, not forked, so this way opens no layer.
            return dict.fromkeys(LAYERS, "")
        finally:
            del os.environ[_VARIABLE]
        output.seek(0)
        try:
            found: dict[str, str] = json.loads(output.read())
        except ValueError:
            return {}
    return found
