"""What is known about one submission on one problem, as plain JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.finding import Finding
from harness.problems.grid import OWN, Case
from harness.records.comparison import Comparison, Precision
from harness.records.coverage import Coverage
from harness.records.picture import Picture
from harness.simulator.counters.by_line import LineCounters
from harness.simulator.counters.totals import Totals
from harness.simulator.ptx.by_line import PtxOfLine
from harness.system import codec

SCHEMA = 10
"""Of the JSON form.

1: the first. 2: with counters. 3: with the share of own work. 4: with the verdict
on the problem's own configuration, and the other kinds of failure. 5: every finding has all fields.
6: with the verdict `agrees`, and with each case's constants. 7: with each case's constructor call
and notes, and with coverage. 8: with what a page is drawn from: pictures of wrong outputs, errors
of each run, counters of each line, the source, and when it was checked. 9: with branches, and with
variables that nothing has set. 10: with the PTX of lines, and with
pictures of what is out of bounds.
"""

Verdict = Literal["passed", "agrees", "failed", "declined", "unsupported", "error", "not run"]
"""On a case, or on a whole submission. Only the latter `agrees`: its cases passed, but by
an error bound that is an estimate."""

AMISS: tuple[Verdict, ...] = ("error", "failed", "unsupported")
"""What keeps a case from being right, or from being known to be."""

DECLINES_OWN = "declines the problem's own configuration"
"""How the message begins of a submission that failed because it refuses what it is for."""

# What decides the verdict of the whole: the first of these that any case has.
_GRAVEST_FIRST: tuple[Verdict, ...] = (
    "error",
    "failed",
    "unsupported",
    "not run",
    "passed",
    "declined",
)


MOST_LEFT_OUT = 0.1
"""Share of the cases that need not be run in a check that passes."""


@dataclass(frozen=True)
class BuildReport:
    """One extension that the submission had compiled.

    Attributes:
        name: As the submission named it.
        seconds: How long compiling took when it was done.
        reused: Whether it came from the cache.
        headers: Those that were enough: `slim`, `light` or `full`, which are torch's own.
    """

    name: str
    seconds: float
    reused: bool
    headers: str


@dataclass(frozen=True)
class OtherFailure:
    """Cases that did not fail as the one that is shown.

    Attributes:
        count: How many have a message of this kind.
        case: Id of one of them.
        message: Its message.
    """

    count: int
    case: str
    message: str


@dataclass(frozen=True)
class CaseReport:
    """How one case went.

    Attributes:
        id: The case's.
        label: The case's.
        arguments: The case's.
        input_shapes: The case's.
        constants: The case's.
        estimated: Why there is no class, though every output is near: bounds are estimates, or
            allow anything; empty where there is one.
        verdict: `not run` where nothing could be said, because the submission did not get so far.
        message: Why it is not `passed`, in one line; empty if it is.
        precision: The tightest class that holds in every run of the case.
        worst: The largest error as a fraction of the fp32 bound.
        wrong_runs: Names of the runs with a wrong output.
        comparison: The first wrong output's, where there is one.
        findings: What the checks found.
        diagnosis: The known mistake behind it, where one fits.
        detail: Several lines for who wants to know more: a traceback, a compiler's output.
        seconds: How long the case took.
        own_work: The share of the work that the submission's own kernels did; None where that is
            not known.
        deterministic: Whether the same call twice gave the same bits; None if it was not tried.
        constructor_call: How `ModelNew` was constructed, as Python text.
        notes: What is worth knowing and changes no verdict.
        errors: The largest error of each run, as a fraction of the fp32 bound; None where the
            output is not finite or of the wrong kind.
        limits: What the other classes allow in the first run, in the same unit, where most is
            allowed.
        picture: Of its first wrong output; kept of the smallest failing case, of one that shows
            more, and of the first one of each other kind.
    """

    id: str
    label: str
    arguments: Mapping[str, object]
    input_shapes: tuple[tuple[int, ...], ...]
    verdict: Verdict
    message: str = ""
    precision: Precision | None = None
    worst: float | None = None
    wrong_runs: tuple[str, ...] = ()
    comparison: Comparison | None = None
    findings: tuple[Finding, ...] = ()
    diagnosis: str = ""
    detail: str = ""
    seconds: float = 0.0
    own_work: float | None = None
    deterministic: bool | None = None
    constants: Mapping[str, int] = field(default_factory=dict)
    estimated: str = ""
    constructor_call: str = ""
    notes: tuple[str, ...] = ()
    errors: Mapping[str, float | None] = field(default_factory=dict)
    limits: Mapping[Precision, float] = field(default_factory=dict)
    picture: Picture | None = None


@dataclass(frozen=True)
class Report:
    """One submission on one problem.

    Attributes:
        submission: Its name.
        path: Its file.
        content_hash: SHA-256 of the file's bytes, in hexadecimal.
        problem: The problem's name.
        problem_hash: SHA-256 of the reference's bytes, in hexadecimal.
        device: What it ran on.
        grid: Which cases.
        seed: From which every value was drawn; the same seed gives the same values.
        versions: Of what may change the result.
        verdict: The gravest of the cases', or what kept them from running.
        message: Why it is not right, in one line.
        precision: The tightest class that holds in every case that ran.
        shared: What the failing cases have in common.
        own_configuration: The verdict on the problem's own configuration; None where it was not
            among the cases.
        smallest_failure: Id of the failing case that is easiest to follow by hand, among those that
            fail as the problem's own configuration does, or else as most do.
        other_failures: What else went wrong elsewhere.
        builds: What was compiled.
        cases: How each went.
        counters: What the kernels did in the problem's reduced configuration; None without the
            simulator, or where it did not get so far.
        notes: What is worth knowing and changes no verdict.
        detail: Several lines: the compiler's output, a traceback.
        seconds: How long all of it took.
        coverage: Which lines of its device code ran; None where nobody looked.
        lines: What they did in the problem's reduced configuration, as `counters` has it together.
        ptx: Of lines with counters or findings, what the compiler made of them; some 128 KiB.
        source: Its file's text; empty where that is more than 256 KiB.
        checked_at: UTC, ISO 8601.
    """

    submission: str
    path: str
    content_hash: str
    problem: str
    problem_hash: str
    device: str
    grid: str
    seed: int
    versions: Mapping[str, str]
    verdict: Verdict
    message: str = ""
    precision: Precision | None = None
    shared: str = ""
    own_configuration: Verdict | None = None
    smallest_failure: str = ""
    other_failures: tuple[OtherFailure, ...] = ()
    builds: tuple[BuildReport, ...] = ()
    cases: tuple[CaseReport, ...] = ()
    counters: Totals | None = None
    notes: tuple[str, ...] = ()
    detail: str = ""
    seconds: float = 0.0
    coverage: Coverage | None = None
    lines: tuple[LineCounters, ...] = ()
    ptx: tuple[PtxOfLine, ...] = ()
    source: str = ""
    checked_at: str = ""
    schema: int = field(default=SCHEMA)

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong with it, so far as it was tried."""
        return self.verdict in ("passed", "agrees")

    def count(self, verdict: Verdict) -> int:
        """Number of cases with a verdict."""
        return Counter(case.verdict for case in self.cases)[verdict]

    @property
    def worst(self) -> float | None:
        """The largest error of all cases as a fraction of the fp32 bound; None if none is known."""
        return max((c.worst for c in self.cases if c.worst is not None), default=None)

    @property
    def own_work(self) -> float | None:
        """The share of the work that its kernels did; None if none is known.

        That of the problem's own configuration where it ran: of a tiny output's work a bias or a
        scaled input is much.
        """
        own = [c.own_work for c in self.cases if c.label in OWN and c.own_work is not None]
        known = own or [c.own_work for c in self.cases if c.own_work is not None]
        return min(known, default=None)

    @property
    def is_deterministic(self) -> bool:
        """Whether the same call twice gave the same bits, wherever that was tried."""
        return all(case.deterministic is not False for case in self.cases)

    def case(self, case_id: str) -> CaseReport:
        """One case's report.

        Raises:
            KeyError: There is none of that id.
        """
        for case in self.cases:
            if case.id == case_id:
                return case
        raise KeyError(case_id)

    def to_json(self) -> str:
        """One line of JSON."""
        return codec.encode(self)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Make a report from what `to_json` gave.

        Raises:
            ValueError: It is of another schema, or no report at all.
        """
        return codec.decode_of_schema(text, cls, SCHEMA, "report", "check the submission again")


def not_run(case: Case, why: str) -> CaseReport:
    """The report of a case that nothing can be said about."""
    return CaseReport(
        id=case.id,
        label=case.label,
        arguments=case.arguments,
        input_shapes=case.input_shapes,
        constants=case.constants,
        constructor_call=case.constructor_call.spelled("ModelNew"),
        verdict="not run",
        message=why,
    )


def overall(cases: Sequence[CaseReport]) -> Verdict:
    """The gravest verdict among cases: `passed` if every case passed or was declined.

    A few may not have been run, since they are beyond the budget; who leaves out more of them, or
    the problem's own configuration, takes more than the simulator does.
    """
    seen = {case.verdict for case in cases}
    verdict: Verdict = next((each for each in _GRAVEST_FIRST if each in seen), "not run")
    if verdict != "not run" or "passed" not in seen:
        return verdict
    left_out = [case for case in cases if case.verdict == "not run"]
    is_little = len(left_out) <= MOST_LEFT_OUT * len(cases)
    return "passed" if is_little and all(c.label not in OWN for c in left_out) else "unsupported"
