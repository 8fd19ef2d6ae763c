"""The options of an evaluation, which every door makes from what its user gave.

The doors are the command line, pytest, the gate and the Python interface. A new option is a field
here, an argument of a door, and its use behind `requesting.Requests`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from harness.defaults import BUILD_SECONDS, CALL_BUDGET, CHECK_SECONDS, SPEED_SECONDS, STEP_SECONDS

if TYPE_CHECKING:  # at run time these would import torch, which takes seconds
    from harness.devices import Choice
    from harness.problems.grid import Grid

# Pytest's plugins share one namespace, so some arguments have this prefix there.
_OF_PYTEST = "harness_"


@dataclass(frozen=True)
class Options:
    """The options of an evaluation; each equals the option of the same name on the command line.

    Attributes:
        device: `auto` is the GPU if there is one, else the simulator.
        grid: `own` has only the reference's own sizes and arguments. `quick` adds cases that cover
            all pairs of parameter values, `full` all triples.
        seed: Seed of all random values; None for a new seed, which the report states.
        step_seconds: Deadline in seconds for each of these: the import, each construction of the
            model, and each call.
        check_seconds: Deadline in seconds for all steps of one submission together.
        build_seconds: Deadline in seconds for all builds of one submission together.
        call_budget: Most thread-instructions (instructions times threads) of one call on the
            simulator. Cases that need more are not run; the reference's own sizes are reduced until
            they fit.
        schedule: Seed that permutes the simulator's order of blocks and warps; 0 is the natural
            order.
        search: Seconds to search for failures at other sizes, after all cases were right.
        readable: Files and folders that submissions may read, such as headers.
        untrusted: True to run nothing unless every layer of the sandbox works.
        speed_seconds: Most seconds that the timing rounds of one speed measurement may take.
    """

    device: Choice = "auto"
    grid: Grid = "quick"
    seed: int | None = None
    step_seconds: float = STEP_SECONDS
    check_seconds: float = CHECK_SECONDS
    build_seconds: float = BUILD_SECONDS
    call_budget: int = CALL_BUDGET
    schedule: int = 0
    search: float = 0.0
    readable: tuple[Path, ...] = ()
    untrusted: bool = False
    speed_seconds: float = SPEED_SECONDS

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Self:
        """Return the options among a command's or pytest's parsed arguments.

        An argument has the name of its field; under pytest it may begin with `harness_`. Fields
        without an argument keep their defaults.
        """
        given: dict[str, Any] = {}
        for field in fields(cls):
            for name in (field.name, _OF_PYTEST + field.name):
                if hasattr(parsed, name):
                    given[field.name] = getattr(parsed, name)
        given["readable"] = tuple(given.get("readable", ()))
        return cls(**given)
