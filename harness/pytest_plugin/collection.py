"""Collection and evaluation of submissions, in pytest sessions that have a reference.

plugin.py registers this module. A file that mentions `ModelNew` is collected as a submission, with
the tests of checks.py. pytest's own process never imports a submission.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from harness.cli.options import sandbox_note
from harness.compiler.tried import torch_note
from harness.engines.engine import EngineChoice, Hardware
from harness.engines.finished import FOLDER as FINISHED
from harness.engines.finished import ReportCache
from harness.engines.suite import PendingEvaluation, Suite
from harness.gpu.state import describe_gpu
from harness.messages.kinds import BASELINE_KINDS, BASELINE_PRECISIONS
from harness.options import Options
from harness.problems.discovery import Rejected, Submission, discover, fits, mentions_model_new
from harness.problems.names import why_no_name
from harness.problems.problem import Problem
from harness.problems.references import load_references
from harness.pytest_plugin import checks, machine, pages
from harness.pytest_plugin.hints import is_excluded_by_name
from harness.pytest_plugin.speeds import SUBMISSION, DeviceClock, SpeedOutcome, SpeedSession
from harness.records.render import headline
from harness.records.report import Report
from harness.records.store import FOLDER
from harness.requesting import Requests
from harness.sandbox import layers
from harness.speed.measure import baseline_name
from harness.system import interpreter
from harness.system.errors import HarnessError
from harness.system.escape import one_line
from harness.system.processors import cores_each


@dataclass(frozen=True)
class SessionOptions:
    """The options of a pytest session, parsed and checked."""

    problems: tuple[Problem, ...]
    engine: EngineChoice
    hardware: Hardware
    requests: Requests


OPTIONS = pytest.StashKey[SessionOptions]()
SUITE = pytest.StashKey[Suite]()
SPEED = pytest.StashKey[SpeedSession]()
CLOCK = pytest.StashKey[DeviceClock]()
TAKEN_OVER = pytest.StashKey[tuple[int, int]]()
NAMES = pytest.StashKey[dict[str, Path]]()
_SEARCH = checks.test_search.__name__


def session_options(config: pytest.Config, references: Iterable[Path]) -> SessionOptions:
    """Return the parsed and checked options of a session, with its references loaded.

    Raises:
        pytest.UsageError: An option is invalid, or needs something that this machine lacks.
    """
    given = Options.of(config.option)
    # All processes of pytest-xdist must draw the same values, because they check parts of one grid.
    shared = getattr(config, "workerinput", {}).get("harness_seed")
    engine = EngineChoice(
        config.getoption("--harness-engine"), config.getoption("--harness-scheduler")
    )
    try:
        layers.require_for(
            given.readable,
            # The machines of a cluster check their own sandboxes.
            untrusted=given.untrusted and not engine.scheduler,
        )
        problems = load_references(references)
        hardware = engine.hardware(given.device)
        options = given if given.seed is not None else replace(given, seed=shared)
        return SessionOptions(problems, engine, hardware, Requests.of(options, hardware.device))
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the session's seed to a process of pytest-xdist; all processes use the same seed."""
    node.workerinput["harness_seed"] = node.config.stash[OPTIONS].requests.seed


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return lines with device, grid, seed and problems, and notes on sandbox and torch."""
    options = config.stash[OPTIONS]
    names = ", ".join(problem.name for problem in options.problems)
    requests = options.requests
    notes = filter(None, (torch_note(), sandbox_note()))
    return [
        f"harness: {requests.device}, grid {requests.options.grid}, seed {requests.seed}, "
        f"problems: {names}",
        *(f"harness: {note}" for note in notes),
    ]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect a submission as a `SubmissionFile`.

    Without this hook, pytest would collect the file as a test module, and import it.
    """
    others = yield
    if _mentions_model_new(file_path) and why_no_name(file_path.stem):
        rejected = discover([file_path]).rejected[0]
        return [Unnameable.from_parent(parent, path=parent.path, rejected=rejected)]
    if _mentions_model_new(file_path) or _is_unreadable(file_path):
        return [SubmissionFile.from_parent(parent, path=file_path)]
    # An untrusted test module is a program too, and importing it would run it.
    return [] if parent.config.stash[OPTIONS].requests.options.untrusted else others


@pytest.hookimpl(wrapper=True)
def pytest_collect_directory(
    path: Path, parent: pytest.Collector
) -> Generator[None, pytest.Collector | None, pytest.Collector | None]:
    """Collect a failing test instead of a folder whose name cannot be printed.

    pytest would print the folder's name before each test in the folder.
    """
    collector = yield
    why_not = why_no_name(path.name)
    if collector is None or why_not is None:
        return collector
    rejected = Rejected(path, f"the folder {why_not}")
    return Unnameable.from_parent(parent, path=parent.path, rejected=rejected)


def _mentions_model_new(path: Path) -> bool:
    if path.suffix != ".py" or is_excluded_by_name(path):
        return False
    try:
        return mentions_model_new(path)
    except OSError:
        return False


def _is_unreadable(path: Path) -> bool:
    """Return whether a file cannot be read, and by its name may be a submission.

    Without this check, pytest would try to import the file.
    """
    own = path.suffix != ".py" or is_excluded_by_name(path)
    return not own and not os.access(path, os.R_OK)


class SubmissionFile(pytest.Module):
    """The pytest collector of a submission's file, with the tests of checks.py."""

    submission: Submission

    def _getobj(self) -> Any:
        # pytest's own method would import the file.
        return checks

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the tests, or one failing test that says why the file cannot be checked."""
        found = discover([self.path])
        rejected = found.rejected or tuple(self._twin(found.submissions[0]))
        if rejected:
            return [RejectedFile.from_parent(self, name="is_submission", rejected=rejected[0])]
        (self.submission,) = found.submissions
        problems = self.config.stash[OPTIONS].problems
        reasons = {each.name: fits(self.submission, each, problems) for each in problems}
        if all(reasons.values()):
            why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            unfit = Rejected(self.path, f"fits no problem: {why}")
            return [RejectedFile.from_parent(self, name="is_submission", rejected=unfit)]
        return [item for item in super().collect() if self._is_asked_for(item)]

    def _is_asked_for(self, item: pytest.Item | pytest.Collector) -> bool:
        is_search = isinstance(item, pytest.Function) and item.originalname == _SEARCH
        return not is_search or self.config.stash[OPTIONS].requests.options.search > 0

    def _twin(self, submission: Submission) -> Iterator[Rejected]:
        first = self.config.stash[NAMES].setdefault(submission.name, self.path)
        if first != self.path:
            yield Rejected(self.path, f"has the same name as {first}; rename one of them")

    def problems(self) -> list[Problem]:
        """Return those of the session's problems that the submission fits."""
        every = self.config.stash[OPTIONS].problems
        return [each for each in every if fits(self.submission, each, every) is None]


class RejectedFile(pytest.Item):
    """A test that fails with one line that says why a file is not a submission."""

    def __init__(self, *, rejected: Rejected, **options: Any) -> None:
        super().__init__(**options)
        self._rejected = rejected

    def runtest(self) -> None:
        """Fail with the file's name and the reason."""
        rejected = self._rejected
        pytest.fail(one_line(f"{rejected.path.name}: {rejected.message}"), pytrace=False)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """Return the reason of the failure, without a traceback."""
        del style
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file's path and the test's title, for pytest's summary."""
        return self.path, None, "is a submission"


class Unnameable(pytest.File):
    """The collector of a submission or folder whose name cannot be printed in a test's name.

    It has one test, which fails and is named after the parent folder.
    """

    def __init__(self, *, rejected: Rejected, **options: Any) -> None:
        super().__init__(**options)
        self._rejected = rejected

    def collect(self) -> Iterable[pytest.Item]:
        """Yield one test, which fails with the reason."""
        yield RejectedFile.from_parent(self, name="is_submission", rejected=self._rejected)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generate the tests of a submission from the functions of checks.py.

    `test_builds` runs once for each submission. `test_matches_reference` runs once for each case of
    the grid, `test_search` once for each problem, and `test_speed` once for the submission and each
    baseline.
    """
    file = metafunc.definition.getparent(SubmissionFile)
    if file is None:
        return
    options = file.config.stash[OPTIONS]
    if "contender" in metafunc.fixturenames:
        _generate_speed_tests(metafunc, file)
        return
    if metafunc.definition.name == _SEARCH:
        each = [pytest.param(problem, id=problem.name) for problem in file.problems()]
        metafunc.parametrize("problem", each)
        return
    if "case" not in metafunc.fixturenames:
        first = file.problems()[0]
        metafunc.parametrize("problem", [pytest.param(first, id=pytest.HIDDEN_PARAM)])
        return
    pairs = [
        pytest.param(problem, case.id, id=f"{problem.name}-{case.id}")
        for problem in file.problems()
        for case in options.requests.cases(problem, file.submission)
    ]
    metafunc.parametrize(("problem", "case"), pairs)


def _generate_speed_tests(metafunc: pytest.Metafunc, file: SubmissionFile) -> None:
    """Generate the speed tests of a submission and of the baselines; skip them without a GPU."""
    options = file.config.stash[OPTIONS]
    clock = file.config.stash.setdefault(CLOCK, DeviceClock())
    why_not = _why_no_speed(file.config, options)
    names = [SUBMISSION]
    if why_not is None:
        names += [
            baseline_name(kind, precision)
            for kind in BASELINE_KINDS
            for precision in BASELINE_PRECISIONS
        ]
    contenders = [
        pytest.param(
            problem,
            name,
            id=f"{problem.name}-{name}",
            marks=[
                pytest.mark.benchmark(group=problem.name, timer=clock),
                *([pytest.mark.skip(reason=why_not)] if why_not else []),
            ],
        )
        for problem in file.problems()
        for name in names
    ]
    metafunc.parametrize(("problem", "contender"), contenders)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep only one speed test of each baseline on each problem, and run it after other tests.

    Each submission is timed together with all baselines, so there is a test of a baseline for each
    submission. One test is enough for the baseline's row in pytest-benchmark's table.
    """
    baselines: dict[tuple[str, str], pytest.Item] = {}
    others = []
    for item in items:
        baseline = _baseline_of(item)
        if baseline is None:
            others.append(item)
        else:
            baselines.setdefault(baseline, item)
    items[:] = [*others, *baselines.values()]


def _baseline_of(item: pytest.Item) -> tuple[str, str] | None:
    """Return the problem and baseline that a speed test is about, or None for any other test."""
    if not isinstance(item, pytest.Function) or item.getparent(SubmissionFile) is None:
        return None
    chosen: dict[str, Any] = dict(item.callspec.params)
    contender = chosen.get("contender", SUBMISSION)
    return None if contender == SUBMISSION else (chosen["problem"].name, contender)


def _why_no_speed(config: pytest.Config, options: SessionOptions) -> str | None:
    if options.requests.device != "cuda":
        return "no GPU: the time that the simulator takes is not a speed"
    if hasattr(config, "workerinput") or getattr(config.option, "numprocesses", None):
        return (
            "under pytest-xdist, tests that run at the same time would disturb the times; "
            "run without -n"
        )
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Build a request for each submission and problem for which tests are selected.

    All requests are known before the first test runs. So the engine can evaluate several of them at
    a time, while tests wait for the results of their cases.
    """
    interpreter.settle()
    config = session.config
    options = config.stash[OPTIONS]
    under_xdist = hasattr(config, "workerinput")
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    # By default, a process of pytest-xdist evaluates one submission at a time, because the
    # processes share the machine.
    own = 1 if under_xdist else options.hardware.jobs
    jobs = config.getoption("--harness-jobs") or own
    folder = config.invocation_params.dir
    finished = ReportCache(folder / FINISHED, options.hardware.gpu)
    start = partial(options.engine.start_beside, jobs)
    suite = config.stash[SUITE] = Suite(
        start, folder / FOLDER, finished, _sayer(config), ahead=not under_xdist
    )
    speeds = config.stash[SPEED] = SpeedSession(
        folder / config.getoption("--harness-results"),
        options.requests.options.speed_seconds,
        _sayer(config),
    )
    making = options.requests
    wanted: dict[tuple[Path, Path], set[str]] = {}
    timed: set[tuple[Path, Path]] = set()
    searched: set[tuple[Path, Path]] = set()
    files: dict[Path, SubmissionFile] = {}
    folders = {item.path.parent for item in session.items if isinstance(item, RejectedFile)}
    for item in session.items:
        file = item.getparent(SubmissionFile)
        if file is None or not isinstance(item, pytest.Function):
            continue
        files[file.path] = file
        chosen: dict[str, Any] = dict(item.callspec.params)
        key = (file.path, chosen["problem"].path)
        ids = wanted.setdefault(key, set())
        if "case" in chosen:
            ids.add(chosen["case"])
        elif "contender" in chosen and _why_no_speed(config, options) is None:
            timed.add(key)
        elif item.originalname == _SEARCH:
            searched.add(key)
    for (path, problem_path), selected in wanted.items():
        problem = next(p for p in options.problems if p.path == problem_path)
        submission = files[path].submission
        grid = making.cases(problem, submission)
        # The speed and the search need a verdict on all cases: both begin only if every case is
        # right. Otherwise, the selected cases are enough.
        is_whole = (path, problem_path) in timed | searched or len(selected) == len(grid)
        cases = grid if is_whole else tuple(case for case in grid if case.id in selected)
        is_searched = (path, problem_path) in searched
        request = making.request(
            path,
            problem_path,
            cases,
            is_whole=is_whole,
            search=making.search(problem, submission) if is_searched else None,
            cores=cores_each(jobs * processes, len(wanted)),
        )
        is_timed = (path, problem_path) in timed
        suite.expect(request, partial(speeds.plan_of, request) if is_timed else None)
    if config.getoption("--harness-resume"):
        config.stash[TAKEN_OVER] = suite.take_over(config.getoption("--harness-seed"))
    if suite.is_waiting and not config.getoption("--collect-only"):
        machine.require(config, options.engine)
    _warn_of_other_files(session, folders | {path.parent for path in files})


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """Return a line with the number of reports that `--harness-resume` takes over, or None."""
    if TAKEN_OVER not in config.stash:
        return None
    count, every = config.stash[TAKEN_OVER]
    return (
        f"harness: {count} of {every} reports were taken over from an earlier run "
        "(--harness-resume)"
    )


def _warn_of_other_files(session: pytest.Session, folders: Iterable[Path]) -> None:
    """Warn about Python files in the submissions' folders that are not submissions.

    Without the warning, a user might expect results for these files.
    """
    for folder in sorted(folders):
        for path in sorted(folder.glob("*.py")):
            if not is_excluded_by_name(path) and not _mentions_model_new(path):
                for rejected in discover([path]).rejected:
                    message = one_line(f"not collected: {rejected.path}: {rejected.message}")
                    session.warn(pytest.PytestWarning(message))


def _sayer(config: pytest.Config) -> Any:
    """Return a function that prints a line on the terminal during pytest's own output.

    The function prints nothing if there is no terminal reporter.
    """
    reporter = cast(Any, config.pluginmanager.get_plugin("terminalreporter"))
    capture = cast(Any, config.pluginmanager.get_plugin("capturemanager"))

    def say(line: str) -> None:
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(f"  {line}")

    return say


@pytest.fixture
def evaluation(request: pytest.FixtureRequest, problem: Problem) -> PendingEvaluation:
    """The evaluation of the submission that the test is for, on the test's problem."""
    suite: Suite = request.config.stash[SUITE]
    return suite.evaluation(request.path, problem.path)


@pytest.fixture
def outcome(
    request: pytest.FixtureRequest, evaluation: PendingEvaluation, problem: Problem
) -> SpeedOutcome:
    """The result of timing the submission that the test is for, on the test's problem.

    The test of a baseline gets the session's first speed result on the problem, of any submission.
    """
    session = request.config.stash[SPEED]
    if request.node.callspec.params["contender"] != SUBMISSION:
        result = session.first_result(problem)
        if result:
            return SpeedOutcome(result)
    return session.outcome(evaluation)


@pytest.fixture
def device_clock(request: pytest.FixtureRequest) -> DeviceClock:
    """The clock of device time that pytest-benchmark reads instead of the wall clock."""
    return request.config.stash[CLOCK]


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    """Add the GPU, its clock and its software versions to pytest-benchmark's machine information.

    On a cluster, nothing is added, since each row of the results names the GPU of its machine.
    """
    options = config.stash[OPTIONS]
    if options.requests.device == "cuda" and not options.engine.scheduler:
        machine_info["gpu"] = describe_gpu()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one line for each report, and one for each file that could not be written."""
    reports = config.stash.get(REPORTS, [])
    if reports:
        terminalreporter.section("submissions")
        for report in reports:
            terminalreporter.write_line(headline(report))
    if SUITE in config.stash:
        for trouble in config.stash[SUITE].troubles:
            terminalreporter.write_line(trouble)
    if pages.TOLD in config.stash:
        terminalreporter.write_line(config.stash[pages.TOLD])


REPORTS = pytest.StashKey[list[Report]]()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End running evaluations, and keep the finished reports for the summary and the HTML page."""
    try:
        _finish(session.config)
    except KeyboardInterrupt:
        # At the end of a session, pytest handles only the exception of pytest.exit.
        pytest.exit("interrupted", pytest.ExitCode.INTERRUPTED)


def _finish(config: pytest.Config) -> None:
    if SUITE in config.stash:
        config.stash[REPORTS] = config.stash[SUITE].finish()
    if config.getoption("--harness-html"):
        reports = config.stash.get(REPORTS, None)
        pages.finish(config, reports or [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the reports of an ended pytest-xdist process; end the session on MachineError."""
    output = getattr(node, "workeroutput", {})
    pages.take(node.config, output)
    machine.take(output)
