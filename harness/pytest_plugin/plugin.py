"""The entry of the pytest plugin, for `pytest path/to/kernels --reference path/to/reference`.

pytest loads this plugin in every session of an environment that has the harness installed. So the
plugin imports almost nothing until a reference is given. References come from `--reference`, or
from `harness_reference` in the project's pytest configuration.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import defaults
from harness.cli import option_types
from harness.pytest_plugin import hints
from harness.pytest_plugin.orders import pytest_load_initial_conftests

__all__ = ["pytest_addoption", "pytest_configure", "pytest_load_initial_conftests"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings of the plugin to pytest."""
    group = parser.getgroup("harness", "CUDA kernel submissions")
    group.addoption(
        "--reference",
        action="append",
        default=[],
        metavar="PATH",
        help="reference file, or folder of them, that submissions are checked against (repeatable)",
    )
    group.addoption(
        "--grid",
        choices=("own", "quick", "full"),
        default="quick",
        help="configurations to check: the problem's own only, all pairs of parameter values, or "
        "all triples (default: quick)",
    )
    group.addoption(
        "--harness-seed",
        type=int,
        metavar="N",
        help="seed of the inputs and weights (default: a new seed, which is printed)",
    )
    group.addoption(
        "--harness-html",
        type=Path,
        metavar="FILE",
        help="write a page with verdicts, wrong outputs and speeds",
    )
    option_types.add_untrusted(group.addoption)
    group.addoption(
        "--harness-resume",
        action="store_true",
        help="take over the reports that an earlier run finished with the same files and options, "
        "and run the rest",
    )
    option_types.add_search(group.addoption, "--harness-")
    group.addoption(
        "--harness-schedule",
        type=option_types.schedule,
        default=0,
        metavar="N",
        help="run blocks and warps in an order drawn from this seed (default: 0, the natural "
        "order; simulator only)",
    )
    place = parser.getgroup("harness-place", "CUDA kernel submissions: where they run")
    place.addoption(
        "--device",
        choices=defaults.DEVICES,
        default="auto",
        help="where submissions run (default: the GPU if there is one, else the simulator)",
    )
    place.addoption(
        "--harness-jobs",
        type=option_types.count,
        metavar="N",
        help="submissions that run at the same time (default: one for each processor; on a GPU, "
        "as many as its memory can hold)",
    )
    option_types.add_engine(place.addoption, "--harness-")
    option_types.add_readable(place.addoption)
    limits = parser.getgroup("harness-limits", "CUDA kernel submissions: limits")
    option_types.add_limits(limits.addoption)
    speed = parser.getgroup("harness-speed", "CUDA kernel submissions: speed")
    speed.addoption(
        "--speed-seconds",
        type=option_types.seconds,
        default=defaults.SPEED_SECONDS,
        metavar="S",
        help="seconds of timing for one submission on one problem, at most (default: %(default)g)",
    )
    speed.addoption(
        "--harness-results",
        type=Path,
        default=defaults.RESULTS,
        metavar="FOLDER",
        help="folder to which measured speeds are added (default: %(default)s)",
    )
    parser.addini(
        "harness_reference",
        type="paths",
        help="references, where --reference is not given",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load the references and set up the collection; without a reference, only set up hints."""
    given = [Path(path) for path in config.getoption("--reference")]
    references = given or list(config.getini("harness_reference"))
    if not references and config.getoption("--untrusted"):
        raise pytest.UsageError("--untrusted: no reference is known; give --reference PATH")
    if not references:
        config.pluginmanager.register(hints, "harness-hints")
        return
    from harness.pytest_plugin import collection, machine

    config.stash[collection.OPTIONS] = collection.session_options(config, references)
    config.stash[collection.NAMES] = {}
    config.pluginmanager.register(collection, "harness-collection")
    config.pluginmanager.register(machine, "harness-machine")
    if getattr(config.option, "dist", "no") == "load":
        # The cases of one submission share a worker. So all tests of a file run in one process.
        config.option.dist = "loadfile"
