"""A machine that can evaluate nothing ends the session, with one line and status 4.

It is asked before the first submission, and may turn out so later, when its disk is full.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NoReturn

import pytest

from harness.engines.engine import EngineChoice
from harness.system.errors import MachineError

_KEY = "harness_machine"


def require(config: pytest.Config, engine: EngineChoice) -> None:
    """See that the engine can evaluate something, or end the session."""
    try:
        engine.prepare()
    except MachineError as error:
        _stop(config, error)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End the session where a test learns of it: the others would learn no more."""
    if call.excinfo and isinstance(call.excinfo.value, MachineError):
        _stop(item.config, call.excinfo.value)
    return (yield)


def take(workeroutput: Mapping[str, Any]) -> None:
    """End the session where one of pytest-xdist's processes has ended for it.

    Raises:
        pytest.UsageError: It has.
    """
    if _KEY in workeroutput:
        raise pytest.UsageError(workeroutput[_KEY])


def _stop(config: pytest.Config, error: MachineError) -> NoReturn:
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is None:
        raise pytest.UsageError(str(error)) from None
    output[_KEY] = str(error)
    # The process that started this one says it.
    pytest.exit(str(error), pytest.ExitCode.USAGE_ERROR)
