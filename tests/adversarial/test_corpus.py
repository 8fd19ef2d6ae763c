"""The harness's verdict on each cheat and each honest submission of the adversarial corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.engines.evaluator import EvaluationError, attempt
from harness.evaluate import Request
from harness.records.report import Report
from harness.sandbox import bubblewrap
from harness.worker.supervisor import Deadlines
from tests.adversarial.expected import CHEATS, HONEST, text_of
from tests.support import OnDemand, harness, reports, request_for, thorough_but

HERE = Path(__file__).parent
REFERENCE = HERE / "conv_transpose1d_small.py"
# The problem's own configuration, and a case with a stride and other sizes.
CASES = ("reduced", "k2-s3-b1x3x17-to8")
HONEST_CASES = (*CASES, "k3-s1-b3x8x17-to8", "k3-s2-b1x2x523-to1", "k1-s8-b1x3x5-to8")
STEP_SECONDS = 60.0
# A seed that no user types, and the same in every run of the tests.
SEED = 3_141_592_653

# One cheat of each family, and an honest submission that resembles a cheat.
QUICK = {
    "alias",
    "cached_by_pointer",
    "knows_the_worker",
    "prints_results",
    "allclose_replaced",
    "float16_inside",
    "numbers_as_results",
    "findings_stripped",
    "container",
}

Outcome = Report | str
"""A report, or the message of an error in the harness itself."""


def evaluated(request: Request) -> Outcome:
    """Evaluate a submission; return its report, or the message of an error of the harness."""
    try:
        return attempt(request, lambda _: None)
    except EvaluationError as error:
        return str(error)


def request(
    folder: str, name: str, cases: tuple[str, ...], seed: int, reference: str = ""
) -> Request:
    """Return a request to check one submission of the corpus in some cases.

    `reference` is as in `Cheat.reference`.
    """
    path = HERE / folder / f"{name}.py"
    deadlines = Deadlines(step=STEP_SECONDS)
    against = HERE.parent / "references" / f"{reference}.py" if reference else REFERENCE
    return request_for(path, against, *cases, seed=seed, deadlines=deadlines)


def why_skipped(name: str) -> str:
    """Return why this machine cannot evaluate the cheat, or an empty string if it can."""
    cheat = CHEATS[name]
    return cheat.only_on_gpu or (bubblewrap.why_not_usable() if cheat.needs_sandbox else "")


@pytest.fixture(scope="module")
def cheats() -> Mapping[str, Outcome]:
    """Return a mapping from each cheat's name to its report; a cheat is evaluated on first use."""

    def made(name: str) -> Outcome:
        cheat = CHEATS[name]
        return evaluated(request("cheats", name, cheat.shown_by(CASES), SEED, cheat.reference))

    return OnDemand(made)


@pytest.fixture(scope="module")
def honest() -> Mapping[str, Outcome]:
    """Return a mapping from honest submissions' names to reports, which are made on first use."""
    return OnDemand(lambda name: evaluated(request("honest", name, HONEST_CASES, SEED)))


@pytest.mark.parametrize("name", thorough_but(QUICK, CHEATS))
def test_cheat_is_caught(request: pytest.FixtureRequest, name: str) -> None:
    """The harness's report on each cheat is one that expected.py allows for this cheat."""
    why = why_skipped(name)
    if why:
        pytest.skip(why)
    outcome = request.getfixturevalue("cheats")[name]
    assert isinstance(outcome, Report), outcome
    assert CHEATS[name].is_caught(outcome), (outcome.verdict, outcome.precision, text_of(outcome))


@pytest.mark.parametrize("name", thorough_but(QUICK, HONEST))
def test_honest_one_passes(honest: Mapping[str, Outcome], name: str) -> None:
    """Each honest submission passes as fp32 without a finding, though its code is unusual."""
    outcome = honest[name]
    assert isinstance(outcome, Report), outcome
    assert outcome.verdict == "passed", outcome.message
    assert outcome.precision == "fp32"
    assert text_of(outcome).strip() == ""


def test_every_file_has_an_expectation() -> None:
    """Every file of the corpus has an expected report.

    The quick tests include a cheat of each family.
    """
    for folder, expected in (("cheats", CHEATS), ("honest", HONEST)):
        assert {path.stem for path in (HERE / folder).glob("*.py")} == set(expected)
    assert len(CHEATS) >= 50
    assert len(HONEST) >= 16
    assert {cheat.family for cheat in CHEATS.values()} == set("ABCDEFGH")
    assert {CHEATS[name].family for name in QUICK if name in CHEATS} == set("ABCDEFGH")


@pytest.mark.thorough
def test_figures(
    cheats: Mapping[str, Outcome],
    honest: Mapping[str, Outcome],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All cheats that this machine can evaluate are caught, and no honest submission is accused.

    The test prints how many cheats were caught and how many honest submissions were accused.
    """
    tried = {name: cheats[name] for name in CHEATS if not why_skipped(name)}
    through = [
        name
        for name, outcome in tried.items()
        if not (isinstance(outcome, Report) and CHEATS[name].is_caught(outcome))
    ]
    right = {name: honest[name] for name in HONEST}
    accused = [
        name
        for name, outcome in right.items()
        if not (isinstance(outcome, Report) and outcome.verdict == "passed")
    ]
    skipped = len(CHEATS) - len(tried)
    with capsys.disabled():
        print(
            f"\ncorpus: {len(tried) - len(through)} of {len(tried)} cheats caught"
            f" ({skipped} more need a GPU or bubblewrap), {len(through)} let through:"
            f" {', '.join(through) or 'none'}; of {len(right)} honest ones"
            f" {len(accused)} accused: {', '.join(accused) or 'none'}"
        )
    assert (through, accused) == ([], [])


@pytest.mark.thorough
def test_no_process_survives(cheats: Mapping[str, Outcome]) -> None:
    """A daemon that a submission started does not survive the evaluation."""
    why = why_skipped("leaves_a_daemon")
    if why:
        pytest.skip(why)
    assert cheats["leaves_a_daemon"]
    names = []
    for process in Path("/proc").glob("[0-9]*/comm"):
        try:
            names.append(process.read_text().strip())
        except OSError:  # it has ended meanwhile
            continue
    assert "corpus-daemon" not in names


@pytest.mark.thorough
def test_seed_that_people_type_says_nothing_of_the_inputs(tmp_path: Path) -> None:
    """A cheat that tries every seed below 256 does not pass, though the user's seed is 7.

    A cheat that finds the seed could compute all later inputs and outputs in advance.
    """
    cheat = HERE / "cheats" / "seed_recovered.py"
    options = ("--reference", REFERENCE, "--seed", "7", "--json", "-")
    done = harness("check", cheat, *options, folder=tmp_path)
    assert reports(done.out)["seed_recovered"].verdict != "passed"
