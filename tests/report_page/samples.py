"""Sample reports and speed results for tests of pages, with a value in every field."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch

from harness.finding import Finding
from harness.judging.oracle import expected
from harness.judging.picture import MistakenOutput, WrongOutput, picture
from harness.problems.grid import case_again
from harness.problems.problem import load
from harness.problems.values import runs_for, values_for
from harness.records.comparison import Comparison, Mismatch
from harness.records.coverage import Coverage
from harness.records.picture import Picture
from harness.records.report import BuildReport, CaseReport, OtherFailure, Report
from harness.simulator.counters.by_line import LineCounters
from harness.simulator.counters.totals import Totals
from harness.simulator.ptx.by_line import PtxOfLine
from harness.speed.result import GpuReading, SpeedResult
from tests.support import REFERENCE, case, discovered, report, speed_result

SOURCE = "\n".join(f"line {number}" for number in range(1, 41))
RUNS = ("uniform", "exact")


@cache
def drawn(length: int = 40, batch: int = 2) -> Picture:
    """Return a picture of an output in which odd positions are wrong, and the last four unwritten.

    If `batch` is 1, the picture also has two writes past the output's end.
    """
    problem = load(REFERENCE / "conv_transpose1d.py")
    arguments = {"in_channels": 2, "out_channels": 3, "kernel_size": 3, "stride": 2}
    of = case_again(
        problem, discovered("flat_index"), "k3", "grid", arguments, ((batch, 2, length),), {},
        seed=5,
    )  # fmt: skip
    run = runs_for(problem)[0]
    values = values_for(problem, of, run)
    actual = expected(problem, of, values.weights, values.inputs).value.float()
    actual[..., 1::2] += 1.0
    mistake = actual.double()
    actual[..., -4:] = torch.nan
    # Two elements past the end were written as well.
    size = actual.numel()
    beside = ((size, size + 1),) if batch == 1 else ()
    wrong = WrongOutput(run, values, actual, actual.isnan(), has_gaps=False, beside=beside)
    return picture(problem, of, wrong, MistakenOutput("no divisibility test", mistake))


def cases() -> tuple[CaseReport, ...]:
    """Return six reports of cases.

    The cases with a stride above 1 are wrong, and the last case is declined.
    """
    found = []
    for number, stride in enumerate((1, 2, 3, 1, 2)):
        arguments = {"kernel_size": 3, "stride": stride}
        name, errors = f"k3-s{stride}-{number}", {"uniform": 0.2 * (number + 1), "exact": 0.0}
        one = case(
            "passed", name, arguments=arguments, precision="fp32", worst=errors["uniform"],
            errors=errors, limits={"tf32": 900.0, "fp16": 700.0, "bf16": 5000.0},
            constructor_call=f"Kernel(3, stride={stride})", input_shapes=((2, 2, 40),),
        )  # fmt: skip
        if stride > 1:
            one = replace(
                one, verdict="failed", message="119 of 486 elements differ", precision=None,
                worst=3e7, errors={"uniform": 3e7, "exact": None}, wrong_runs=RUNS,
                comparison=Comparison(None, 3e7, Mismatch("119", (0, 0, 1), 1.0, "nan", 119, 486)),
                diagnosis="no divisibility test: skip the tap", findings=(finding(),),
                detail="first\nsecond",
            )  # fmt: skip
        found.append(one)
    found.append(case("declined", "k5", arguments={"kernel_size": 5, "stride": 1}, message="no"))
    return tuple(found)


def finding() -> Finding:
    """Return a finding of a store past the end of an allocation."""
    return Finding(
        "memcheck", "4-byte store 4 bytes past the end", "fill", "build/mine.py", 12,
        block=(1, 0, 0), thread=(31, 0, 0), address=4096, count=7, allocation=64, offset=64,
    )  # fmt: skip


def wrong() -> Report:
    """Return the report of a wrong submission, with pictures, counters and findings."""
    every = list(cases())
    every[1] = replace(every[1], picture=drawn())
    every[2] = replace(every[2], picture=drawn(4_000))
    every[4] = replace(every[4], picture=drawn(20, batch=1))
    lines = tuple(LineCounters(n, 100 * n, 3200 * n, 10, 40 * n, 40, 9, 3, 5, 2) for n in (10, 12))
    return report(
        *every, verdict="failed", message="119 of 486 elements differ", smallest_failure="k3-s2-1",
        shared="all 3 with stride > 1 fail; none with stride 1", own_configuration="passed",
        other_failures=(OtherFailure(1, "k3-s3-2", "something else"),), source=SOURCE, lines=lines,
        coverage=Coverage((10, 12), (14,)), builds=(BuildReport("ext", 1.0, False, "light"),),
        ptx=(
            PtxOfLine(10, "fill", ("mov.u32 %r1, %tid.x;", "@%p1 bra $L__BB0_2;")),
            PtxOfLine(12, "fill", ("st.global.f32 [%rd4], %f1;",), left_out=7),
            PtxOfLine(12, "sum", ("st.global.f32 [%rd8], %f2;",)),
        ),
        counters=Totals(1, 10_000, 320_000, 5000, 400, 1168, 90, 45, 0, 32, 1.0),
        notes=("a note",), detail="some\ndetail", checked_at="2026-11-24T10:00:00+00:00",
        content_hash="ab" * 32, precision="fp32",
    )  # fmt: skip


def right() -> Report:
    """Return the report of a right submission, whose speed is in `results`."""
    (one, *_) = cases()
    return report(
        one, verdict="passed", submission="fast", content_hash="ef" * 32, source=SOURCE,
        precision="fp32", counters=wrong().counters, checked_at="2026-11-24T11:00:00+00:00",
    )  # fmt: skip


def reports() -> tuple[Report, ...]:
    """Return the reports of the wrong and of the right submission."""
    return wrong(), right()


def results() -> tuple[SpeedResult, ...]:
    """Return two speed results: of the right submission, and of a slower version before it."""
    # The third of 41 rounds was discarded.
    looks = [
        GpuReading(1980.0 - 5 * (at % 3), 500.0, 50.0, ("power limit",) if at % 2 else (), at != 2)
        for at in range(41)
    ]
    looks[2] = replace(looks[2], clock_mhz=1200.0, reasons=("heat, by the driver", "power limit"))
    now = speed_result("fast", 4.0, content_hash="ef" * 32, looks=tuple(looks), discarded=1)
    earlier = "2026-10-01T00:00:00+00:00"
    return speed_result("fast", 5.0, content_hash="99" * 32, measured_at=earlier), now


def replaced(one: Report, number: int, pictures: Sequence[Picture | None]) -> Report:
    """Return a copy of a report with 80 cases and 300 lines of source.

    Args:
        one: The report.
        number: Selects the names in the copy. From a multiple of 3, three successive numbers give
            the same submission on three references.
        pictures: Pictures for the first cases; the other cases have no picture.
    """
    (plain, failed, *_) = one.cases
    cases = [
        replace(failed if at % 3 == 0 else plain, id=f"k3-s2-p1-op1-b3x1x2-to1-{at}", picture=None)
        for at in range(80)
    ]
    for at, each in enumerate(pictures):
        cases[at] = replace(cases[at], picture=each)
    chance = random.Random(number // 3)  # noqa: S311 - registers' numbers, no secrets
    ptx = tuple(
        PtxOfLine(line, "conv", tuple(_instruction(chance) for _ in range(40)))
        for line in range(20, 140)
    )
    return replace(
        one, submission=f"mine{number // 3}", problem=f"conv{number % 3}", cases=tuple(cases),
        source="\n".join(["    float sum = x[index] * weight[tap];"] * 300),
        content_hash=f"{number // 3:064}", ptx=ptx,
    )  # fmt: skip


def _instruction(chance: random.Random) -> str:
    one, two, three = (chance.randrange(400) for _ in range(3))
    return f"fma.rn.f32 %f{one}, %f{two}, %f{three}, %f{one};"
