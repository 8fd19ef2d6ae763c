"""Run one submission once on a GPU, in a problem's reduced configuration, for a profiler to watch.

python benchmarks/run_once.py submissions/flat_index.py reference/conv_transpose1d.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from harness.build.cache import Cache, default_root
from harness.build.toolchain import find_toolchain
from harness.discovery import discover
from harness.grid import cases_for
from harness.problem import load
from harness.values import runs_for, values_for
from harness.worker.protocol import Message
from harness.worker.session import Session
from harness.worker.settings import Settings


def main() -> None:
    """Build, construct, and call forward once."""
    submission_path, problem_path = map(Path, sys.argv[1:3])
    major, minor = torch.cuda.get_device_capability()
    settings = Settings(
        submission=submission_path.resolve(),
        device="cuda",
        architecture=f"{major}{minor}",
        cache=Cache(default_root()).root,
        toolchain=find_toolchain(),
        libraries=None,
    )
    problem = load(problem_path)
    (submission,) = discover([submission_path]).submissions
    case = cases_for(problem, submission)[0]
    session = Session(settings, lambda _: None)
    session.import_submission(Message({}))
    session.construct(Message({"arguments": dict(case.arguments), "seed": 1}))
    session.forward(Message({}, values_for(problem, case, runs_for(problem)[0]).inputs))


if __name__ == "__main__":
    main()
