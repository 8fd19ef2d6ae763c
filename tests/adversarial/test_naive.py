"""Cheats of the adversarial corpus against naive.py, an evaluator without defences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.compiler.cache import Cache, default_root
from harness.compiler.toolchain import find_toolchain
from harness.simulator.native.library import build_libraries
from harness.system import interpreter
from tests.adversarial.expected import CHEATS
from tests.simulator.support import runtime_first
from tests.support import ROOT, run

HERE = Path(__file__).parent
HONEST = HERE / "honest" / "container.py"

FOOLING = [name for name, cheat in CHEATS.items() if not cheat.unlike_naive]
NOT_FOOLING = {name: cheat.unlike_naive for name, cheat in CHEATS.items() if cheat.unlike_naive}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return naive.py's results for an honest submission and each cheat that should fool it."""
    folder = tmp_path_factory.mktemp("naive")
    target = folder / "results.json"
    files = [HERE / "cheats" / f"{name}.py" for name in FOOLING]
    command = interpreter.command(
        "tests.adversarial.naive_simulated",
        str(target),
        str(HERE / "conv_transpose1d_small.py"),
        *map(str, [HONEST, *files]),
    )
    # `-P` keeps the current folder off the path; the tests are found through PYTHONPATH.
    first = runtime_first(build_libraries(Cache(default_root()), find_toolchain()))
    done = run(["env", f"PYTHONPATH={ROOT}", *command], ROOT, **first)
    assert target.exists(), done.err
    found: dict[str, Any] = json.loads(target.read_text())
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", FOOLING)
def test_it_is_fooled(results: dict[str, Any], name: str) -> None:
    """The naive evaluator calls the cheat correct.

    It also measures a competitive speed for the cheat: at most twice the seconds of an honest
    kernel, or at least the honest kernel's speedup.
    """
    result, honest = results[name], results[HONEST.stem]
    assert result is not None, "it printed no result"
    assert result["correct"]
    assert result["seconds"] <= 2 * honest["seconds"] or result["speedup"] >= honest["speedup"]


@pytest.mark.thorough
def test_most_of_the_corpus_fools_it() -> None:
    """More than half of the cheats fool the naive evaluator; each other cheat has a stated reason.

    Many of the other cheats were written against this harness.
    """
    assert len(FOOLING) > len(NOT_FOOLING)
    assert all(NOT_FOOLING.values())


@pytest.mark.thorough
def test_it_takes_the_honest_one(results: dict[str, Any]) -> None:
    """The naive evaluator calls an honest submission correct."""
    assert results[HONEST.stem]["correct"]
