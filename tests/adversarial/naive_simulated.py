"""Run the naive evaluator without a GPU: `naive_simulated.py RESULTS REFERENCE FILE...`.

One process loads torch, and forks a child for each submission (FILE). Each child runs naive.py on
its own simulated device. A clock that advances with the device's work replaces the host's clock, so
that times do not depend on the machine.

RESULTS receives a JSON object, which maps the name of each submission to its result. The result is
what naive.py printed for the submission, or null if it printed no result.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from harness.compiler.builder import Builder
from harness.compiler.cache import Cache
from harness.compiler.compiler import Compiler
from harness.compiler.extension import ExtensionLoader
from harness.compiler.flags import Extension
from harness.evaluate import Request, settings_for
from harness.sandbox import view
from harness.simulator.hardware.resources import parse_usage, resource_usage
from harness.worker.settings import Settings
from tests.adversarial import naive
from tests.simulator.connected import Connected

_DEADLINE_SECONDS = 120
_SECONDS_PER_INSTRUCTION = 1e-9
_SECONDS_PER_LOOK = 1e-6


class DeviceClock:
    """A clock that advances with the work of the simulated device.

    Each reading also advances the clock by a microsecond. Otherwise a submission that executes no
    instruction would take no time at all.
    """

    def __init__(self, device: Connected) -> None:
        self._device = device
        self._seconds = 0.0

    def __call__(self) -> float:
        """Return the time in seconds; this replaces `time.perf_counter()`."""
        executed = self._device.observe().spent
        self._seconds += executed * _SECONDS_PER_INSTRUCTION + _SECONDS_PER_LOOK
        return self._seconds


def main(results: Path, reference: Path, submissions: list[Path]) -> None:
    """Evaluate submissions one after another, and write all results to a JSON file."""
    torch.set_num_threads(1)
    settings = settings_for(Request(submissions[0], reference, "simulator"))
    found = {}
    for submission in submissions:
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(theirs, 1)
            os.close(theirs)
            _be_the_evaluator(settings, reference, submission)
        os.close(theirs)
        with open(ours) as output:  # noqa: PTH123 - a descriptor, and no path
            found[submission.stem] = _last_result(output.read())
        os.waitpid(child, 0)
    results.write_text(json.dumps(found))


def _be_the_evaluator(settings: Settings, reference: Path, submission: Path) -> None:
    """Evaluate a submission as `python naive.py` would, and end this process."""
    signal.alarm(_DEADLINE_SECONDS)
    try:
        time.perf_counter = DeviceClock(_device(settings, submission))
        naive.evaluate(str(reference), str(submission))
    except SystemExit:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        atexit._run_exitfuncs()
        os._exit(0)


def _device(settings: Settings, submission: Path) -> Connected:
    """Give this process a simulated `cuda` device, and return the device.

    Also make `load_inline` build extensions for this device.
    """
    assert settings.libraries is not None, "the simulator has libraries"
    cache, toolchain = Cache(settings.cache), settings.toolchain
    compiler = Compiler(toolchain, tuple(view.of_submission(submission)))
    builder = Builder(toolchain, cache, settings.target, compiler)

    def build(extension: Extension) -> bytes:
        return builder.build(extension).library.read_bytes()

    ExtensionLoader(submission, build).install()
    return Connected(
        settings.libraries,
        lambda code: parse_usage(resource_usage(toolchain.cuda, compiler, cache, code)),
    )


def _last_result(printed: str) -> Any:
    """Return the last result in the output of an evaluator, or None if it printed none."""
    for line in reversed(printed.splitlines()):
        if line.startswith('{"correct"'):
            return json.loads(line)
    return None


if __name__ == "__main__":
    paths = [Path(argument).resolve() for argument in sys.argv[1:]]
    main(paths[0], paths[1], paths[2:])
