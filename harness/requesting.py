"""The requests of one command: every door makes its requests for evaluations here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from harness.evaluate import Request, fresh_run
from harness.options import Options
from harness.problems.discovery import Submission
from harness.problems.grid import Case, cases_for, fresh_seed
from harness.problems.problem import Problem
from harness.problems.search import Search, search_for
from harness.system.device import Device
from harness.worker.supervisor import Deadlines


@dataclass(frozen=True)
class Requests:
    """A maker of requests that all have the options, the device and the seed of one command.

    Attributes:
        options: The options of the command.
        device: The device to run on.
        seed: Seed of all random values.
        run: Name of the command's run (`Request.run`).
    """

    options: Options
    device: Device
    seed: int
    run: str = field(default_factory=fresh_run)

    @classmethod
    def of(cls, options: Options, device: Device) -> Self:
        """Return a maker with the options' seed, or with a new one if they have none."""
        return cls(options, device, _seed(options))

    def reseeded(self) -> Self:
        """Return a maker with another new seed, unless the options have a seed."""
        return replace(self, seed=_seed(self.options))

    def request(
        self,
        submission: Path,
        problem: Path,
        cases: tuple[Case, ...] = (),
        *,
        is_whole: bool = True,
        search: Search | None = None,
        cores: int = 1,
    ) -> Request:
        """Return the request to check a submission's file against a reference's file.

        The arguments have the meanings of `Request`'s attributes.
        """
        options = self.options
        return Request(
            submission=submission,
            problem=problem,
            device=self.device,
            cases=cases,
            is_whole=is_whole,
            grid=options.grid,
            seed=self.seed,
            deadlines=Deadlines(
                step=options.step_seconds,
                all_steps=options.check_seconds,
                all_builds=options.build_seconds,
            ),
            schedule=options.schedule,
            cores=cores,
            readable=options.readable,
            untrusted=options.untrusted,
            call_budget=options.call_budget,
            search=search,
            run=self.run,
        )

    def cases(self, problem: Problem, submission: Submission) -> tuple[Case, ...]:
        """Return the cases of the options' grid for a submission of a problem."""
        return cases_for(problem, submission, self.options.grid, self.device, seed=self.seed)

    def search(self, problem: Problem, submission: Submission) -> Search | None:
        """Return the search for failures at other sizes; None if the options ask for none."""
        return search_for(problem, submission, self.options.search)


def _seed(options: Options) -> int:
    return fresh_seed() if options.seed is None else options.seed
