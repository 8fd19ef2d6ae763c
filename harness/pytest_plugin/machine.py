"""End of a pytest session, with one line and status 4, if the machine cannot evaluate anything.

The machine is checked before the first evaluation. It may also fail later, for example when a disk
is full.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NoReturn

import pytest

from harness.engines.engine import EngineChoice
from harness.system.errors import MachineError

_KEY = "harness_machine"


def require(config: pytest.Config, engine: EngineChoice) -> None:
    """Prepare the engine's machine for evaluations; end the session if that fails."""
    try:
        engine.prepare()
    except MachineError as error:
        _stop(config, error)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End the session if a test raises MachineError, because all other tests would raise it too."""
    if call.excinfo and isinstance(call.excinfo.value, MachineError):
        _stop(item.config, call.excinfo.value)
    return (yield)


def take(workeroutput: Mapping[str, Any]) -> None:
    """End the session if `workeroutput` of a pytest-xdist process has a MachineError's message.

    Raises:
        pytest.UsageError: The process ended with a MachineError.
    """
    if _KEY in workeroutput:
        raise pytest.UsageError(workeroutput[_KEY])


def _stop(config: pytest.Config, error: MachineError) -> NoReturn:
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is None:
        raise pytest.UsageError(str(error)) from None
    output[_KEY] = str(error)
    # The main process of pytest-xdist prints the message; see take().
    pytest.exit(str(error), pytest.ExitCode.USAGE_ERROR)
