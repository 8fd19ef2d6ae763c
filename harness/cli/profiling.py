"""The execution of `harness profile`: counts what kernels do on the simulator, prints tables."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from typing import IO

from harness import devices
from harness.cli.notes import open_json, print_notes, print_refusals
from harness.cli.options import NOT_PASSED, PASSED, reference_paths
from harness.compiler.cache import Cache, default_root
from harness.evaluate import Request
from harness.options import Options
from harness.preflight import prepare
from harness.problems.discovery import Submission, discover, fits
from harness.problems.problem import Problem
from harness.problems.references import load_references, named
from harness.profile.profile import ProfileError, profile
from harness.profile.tables import tables
from harness.requesting import Requests
from harness.sandbox import layers
from harness.system.output import JsonLines, say
from harness.system.processors import usable_cores


def profile_one(options: argparse.Namespace) -> int:
    """Print the counters of one submission on each problem that it fits; return the exit status.

    Raises:
        harness.system.errors.HarnessError: The submission cannot be run.
    """
    problems = named(load_references(reference_paths(options)), options.problem)
    device = devices.choose("simulator")
    layers.require_for(options.readable, untrusted=options.untrusted)
    found = discover([options.submission])
    # A fixed seed gives kernels that branch on values the same counters in every run.
    making = Requests(Options.of(options), device, seed=0)
    pairs = [(s, p) for s in found.submissions for p in problems if fits(s, p, problems) is None]
    if pairs:
        prepare(Cache(default_root()))
    with ExitStack() as stack:
        json_lines = open_json(options.json, stack)
        out = sys.stderr if json_lines and json_lines.is_standard_output else sys.stdout
        print_notes(out)
        refused = print_refusals(found, problems, out)
        failed = False
        for submission, problem in pairs:
            request = making.request(submission.path, problem.path, cores=usable_cores())
            failed |= not _profile(request, problem, submission, json_lines, out)
    return NOT_PASSED if failed or refused else PASSED


def _profile(
    request: Request,
    problem: Problem,
    submission: Submission,
    json_lines: JsonLines | None,
    out: IO[str],
) -> bool:
    """Print one profile; return False if it fails or if a finding makes the submission wrong."""
    try:
        counted = profile(request, problem, submission)
    except ProfileError as error:
        say(f"{submission.name} on {problem.name}: {error}", out)
        return False
    print(tables(counted), file=out, flush=True)
    if json_lines is not None:
        json_lines.write(json.dumps(counted.to_plain()))
    return not counted.failed
