"""The report page in a browser, as users see and use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report_page.data import pairs_of
from harness.report_page.page import page
from tests.report_page import samples
from tests.report_page.browser import SETTLED, Browser

ROWS = "[...document.querySelectorAll('#overview tbody tr')].filter(row => !row.hidden)"
FIRST_MAP = "document.querySelector('.picture canvas[data-map=errors]')"
PIXEL = (
    f"(at => [...{FIRST_MAP}.getContext('2d').getImageData(at, 3, 1, 1).data].slice(0, 3).join())"
)


def choose(browser: Browser, selector: str, value: str) -> None:
    """Set the value of a form field, and send the events that a user's input causes."""
    browser.run(
        f"(field => {{ field.value = {value!r}; for (const kind of ['input', 'change'])"
        f" field.dispatchEvent(new Event(kind)); }})(document.querySelector({selector!r}))"
    )


@pytest.mark.parametrize("fragment", ["", "#mine", "#fast", "#nobody/nothing", "#%"])
def test_page_needs_nothing_and_complains_of_nothing(
    browser: Browser, shown: Path, fragment: str
) -> None:
    """The page loads only its own file, without script errors or violations of its security policy.

    That holds for any fragment in its address.
    """
    browser.open(shown, fragment)
    assert browser.complaints == []
    assert browser.asked == [shown.as_uri()]


def test_overview_is_sorted_and_filtered(browser: Browser, shown: Path) -> None:
    """A click on a column header sorts the overview of submissions.

    A text field and a choice of verdicts filter the overview.
    """
    browser.open(shown)
    names = f"{ROWS}.map(row => row.cells[0].textContent)"
    assert browser.run(names) == ["mine", "fast"]
    browser.run("document.querySelector('#overview th button').click()")
    assert browser.run(names) == ["fast", "mine"]
    choose(browser, "#overview input", "divisib")
    assert browser.run(names) == ["mine"]
    choose(browser, "#overview input", "")
    choose(browser, "#overview select", "passed")
    assert browser.run(names) == ["fast"]
    assert "4.45" in browser.run(f"{ROWS}[0].textContent")


def test_link_leads_to_a_submission(browser: Browser, shown: Path) -> None:
    """A submission's name is a link to its details, at an address that can be shared."""
    browser.open(shown)
    browser.run("document.querySelector('#overview a').click()")
    browser.run("new Promise(done => setTimeout(done, 0))")
    assert browser.run("location.hash") == "#mine/conv"
    assert browser.run("document.title") == "mine on conv"
    text = browser.run("document.querySelector('main').textContent")
    for words in (
        "Diagnosis: no divisibility test", "Pattern: all 3 with stride > 1 fail", "a note",
        "harness check mine.py --problem conv --seed 7 --case k3-s2-1", "something else",
    ):  # fmt: skip
        assert words in text


def test_link_leads_to_a_section(browser: Browser, shown: Path) -> None:
    """The third part of an address such as `#mine/conv/source` scrolls to a section.

    A link to another section keeps all filters.
    """
    browser.open(shown, "#mine/conv/source")
    # Adding 0 turns -0 into 0, because JSON has no -0.
    top = "Math.round(document.getElementById(%r).getBoundingClientRect().top) + 0"
    assert abs(browser.run(top % "source")) <= 1
    choose(browser, "select[aria-label='stride is']", "> 1")
    browser.run("document.querySelector('nav[aria-label=sections] a').click()")
    browser.run("new Promise(done => setTimeout(done, 0))")
    assert abs(browser.run(top % "wrong")) <= 1
    assert browser.run("document.querySelector(\"select[aria-label='stride is']\").value") == "> 1"


def test_map_is_read_by_keyboard(browser: Browser, shown: Path) -> None:
    """Arrow keys move over the map of an output, one element at a time.

    A text gives the element's index, its position modulo the stride, and its numbers.
    """
    browser.open(shown, "#mine")
    said = "document.querySelector('.readout').textContent"
    # The map starts at the first wrong element.
    assert browser.run(said).startswith("[batch 0, channel 0, position 1]: wrong by")
    assert "position mod stride 2 = 1; expected " in browser.run(said)
    assert "the mistake gives" in browser.run(said)
    browser.run(f"{FIRST_MAP}.focus()")
    browser.press("ArrowLeft")
    assert browser.run(said).startswith("[batch 0, channel 0, position 0]: within the fp32 bound")
    browser.press("ArrowDown")
    assert browser.run(said).startswith("[batch 0, channel 1, position 0]")
    choose(browser, "input[type=number]", "8")
    for _ in range(80):
        browser.press("ArrowRight")
    assert browser.run(said).startswith("[batch 0, channel 1, position 80]: never written")
    assert "tile 10, 0 in it" in browser.run(said)
    choose(browser, "input[aria-label='elements in a block']", "32")
    # A row has 81 elements.
    assert "block 5, thread 1" in browser.run(said)
    choose(browser, "select[aria-label=page]", "1")
    assert browser.run(said).startswith("[batch 1, channel 1, position 80]")


@pytest.mark.parametrize("dark", [False, True])
def test_right_wrong_and_unwritten_have_their_colours(
    browser: Browser, shown: Path, dark: bool
) -> None:
    """Right, wrong and unwritten elements and the background have four different colours.

    That holds in the light and in the dark theme.
    """
    browser.open(shown, "#mine", dark=dark)
    size = browser.run(f"{FIRST_MAP}.width / 81")
    right, wrong, gap = (browser.run(f"{PIXEL}({(at + 0.5) * size})") for at in (2, 3, 80))
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert len({right, wrong, gap, paper}) == 4
    assert paper == ("rgb(21, 25, 30)" if dark else "rgb(255, 255, 255)")


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_out_of_bounds_has_a_colour_of_its_own(
    browser: Browser, shown: Path, dark: bool
) -> None:
    """A write outside the output has its own colour, in a row after the last element.

    The other cells of that row have no element and no colour.
    """
    browser.open(shown, "#mine", dark=dark)
    third = "document.querySelectorAll('.picture')[2]"
    first = f"{third}.querySelector('canvas[data-map=errors]')"
    pixel = f"((x, y) => [...{first}.getContext('2d').getImageData(x, y, 1, 1).data].join())"
    size = browser.run(f"{first}.width / 41")
    at = [(0.5, 3.5), (0.5, 0.5), (1.5, 0.5), (40.5, 0.5)]
    outside, right, wrong, gap = (browser.run(f"{pixel}({x * size}, {y * size})") for x, y in at)
    assert len({outside, right, wrong, gap}) == 4
    assert browser.run(f"{pixel}({2.5 * size}, {3.5 * size})") == "0,0,0,0"
    said = f"{third}.querySelector('.readout').textContent"
    browser.run(f"{first}.focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        browser.press(key)
    assert browser.run(said) == "written beside the output: element 2 behind the output's end"
    browser.press("ArrowRight")
    assert browser.run(said) == "nothing there"
    assert "out of bounds" in browser.run(f"{third}.querySelector('.legend').textContent")


def test_switch_turns_the_theme(browser: Browser, shown: Path) -> None:
    """The theme switch overrides the system's preference, and the maps are drawn again."""
    browser.open(shown, "#mine")
    before = browser.run(f"{PIXEL}(3)")
    browser.run("document.getElementById('theme').click()")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 30)"
    assert browser.run(f"{PIXEL}(3)") != before
    browser.run("document.getElementById('theme').click(); localStorage.clear()")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_large_output_is_shown_whole_and_in_detail(browser: Browser, shown: Path) -> None:
    """The map of a large output first shows the part around the first wrong element.

    An overview of the whole output can be chosen.
    """
    browser.open(shown, "#mine")
    second = "document.querySelectorAll('.picture')[1]"
    said = f"{second}.querySelector('.readout').textContent"
    assert browser.run(said).startswith("[batch 0, channel 0, position 1]")
    browser.run(
        f"(field => {{ field.value = 'overview'; field.dispatchEvent(new Event('change')); }})"
        f"({second}.querySelector('select'))"
    )
    assert browser.run(said).startswith("[batch 0, channel 0, position 0 to 83]")


def test_cases_are_filtered_by_parameter(browser: Browser, shown: Path) -> None:
    """A filter shows only cases with a stride above 1; each case has a command to run it again."""
    browser.open(shown, "#mine")
    rows = "[...document.querySelectorAll('#cases tbody tr')].filter(row => !row.hidden)"
    above = browser.run("document.getElementById('cases').textContent.split('6 of 6 cases')[0]")
    assert "all 3 with stride > 1 fail; none with stride 1" in above
    assert "Diagnosis: no divisibility test: skip the tap" in above
    assert browser.run(f"{rows}.length") == 6
    choose(browser, "select[aria-label='stride is']", "> 1")
    assert browser.run(f"{rows}.map(row => row.cells[0].textContent)") == ["failed"] * 3
    browser.run(f"{rows}[0].querySelector('button').click()")
    command = "harness check mine.py --problem conv --seed 7 --case k3-s2-1"
    assert command in browser.run(f"{rows}[0].textContent")
    choose(browser, "select[aria-label='stride is']", "= 1")
    choose(browser, "select[aria-label='verdict is']", "declined")
    assert browser.run(f"{rows}.length") == 1


def test_source_has_findings_coverage_and_counters(browser: Browser, shown: Path) -> None:
    """The source view marks findings, counters, and lines that never ran.

    A click on a line's mark shows the finding. The line with the most instructions is listed first.
    """
    browser.open(shown, "#mine")
    line = "document.querySelector('[data-line=\"%d\"]')"
    browser.run(f"{line % 12}.querySelector('.badge').click()")
    told = browser.run(f"{line % 12}.nextSibling.textContent")
    for words in ("4-byte store", "(1, 0, 0)", "(31, 0, 0)", "0x1000", "in 3 cases", "fill"):
        assert words in told
    assert browser.run(f"{line % 14}.className") == "never"
    assert "1,200" in browser.run(f"{line % 12}.textContent")
    assert browser.run("document.querySelector('#source .row button').textContent") == (
        "line 12: 1,200"
    )
    choose(browser, "#source select", "1")
    assert "48 a request, 4 would do" in browser.run(f"{line % 12}.textContent")


def ptx_shown(browser: Browser) -> str | None:
    """Return the text of the opened PTX, or None if no line's PTX is open."""
    browser.run(SETTLED)
    text: str | None = browser.run("document.querySelector('#source .ptx')?.textContent ?? null")
    return text


def test_ptx_of_a_line_is_there_on_demand(browser: Browser, shown: Path) -> None:
    """A source line's PTX is shown only on demand, by a click on the line or by keyboard."""
    browser.open(shown, "#mine")
    row = "document.querySelector('[data-line=\"12\"]')"
    number = f"{row}.querySelector('.number button')"
    assert browser.run("document.getElementById('source').textContent.includes('st.global')") is (
        False
    )
    browser.run(f"{number}.click()")
    told = ptx_shown(browser) or ""
    for words in (
        "PTX of line 12 in fill: 8 instructions", "st.global.f32 [%rd4], %f1;", "… and 7 more",
        "PTX of line 12 in sum: 1 instruction", "st.global.f32 [%rd8], %f2;",
    ):  # fmt: skip
        assert words in told
    # A finding of the same line opens and closes independently.
    browser.run(f"{row}.querySelector('.badge').click()")
    browser.run(f"{number}.click()")
    assert ptx_shown(browser) is None
    assert "4-byte store" in browser.run(f"{row}.nextSibling.textContent")
    browser.run(f"{row}.cells[4].click()")
    assert "st.global" in (ptx_shown(browser) or "")
    browser.run(f"{number}.focus()")
    browser.press("Enter")
    assert ptx_shown(browser) is None
    assert browser.run("document.querySelector('[data-line=\"14\"] .number button')") is None


def test_speed_and_history_are_drawn(browser: Browser, shown: Path) -> None:
    """The speed chart shows the floor first, then submission and baselines in order of time.

    The floor is the time that no kernel can beat. The history marks the version that became faster.
    """
    browser.open(shown, "#fast")
    marks = browser.run(
        "[...document.querySelectorAll('#speed .mark')].map(m => [m.dataset.name, +m.dataset.x])"
    )
    assert [name for name, _ in marks][:2] == ["fast", "cudnn.benchmark tf32"]
    assert len(marks) == 7
    floor = browser.run("+document.querySelector('#speed .floor').getAttribute('x1')")
    places = [floor, *(x for _, x in marks)]
    assert places == sorted(places)
    assert browser.run("document.querySelectorAll('#speed svg').length") == 4
    steps = browser.run(
        "[...document.querySelectorAll('#history tbody .badge')].map(b => b.textContent)"
    )
    assert steps == ["passed", "faster"]


def test_clock_and_throttling_are_drawn_below_the_samples(browser: Browser, shown: Path) -> None:
    """The speed chart has the GPU's clock in each round, and no time for a discarded round.

    It names the reason for a lower clock.
    """
    browser.open(shown, "#fast")
    clocks = "[...document.querySelectorAll('#speed .clock')]"
    assert browser.run(f"{clocks}.length") == 41
    thrown = f"{clocks}.filter(c => c.classList.contains('wrong'))"
    assert browser.run(f"{thrown}.map(c => c.textContent)") == [
        "round 3: 1200 MHz; held down by heat, by the driver, power limit; thrown away"
    ]
    low = browser.run(f"+{thrown}[0].getAttribute('cy')")
    assert low == browser.run(f"Math.max(...{clocks}.map(c => +c.getAttribute('cy')))")
    samples = (
        "[...document.querySelectorAll('#speed circle')]"
        ".filter(c => c.textContent.endsWith(' ms')).map(c => c.getAttribute('cx'))"
    )
    places = browser.run(f"{clocks}.map(c => c.getAttribute('cx'))")
    assert browser.run(samples) == places[:2] + places[3:]
    held = browser.run(
        "[...document.querySelectorAll('#speed .held')].map(r => r.textContent)"
        ".filter(text => text.includes('heat'))"
    )
    assert held == ["round 3: heat, by the driver"]


@pytest.mark.parametrize("fragment", ["", "#mine", "#fast"])
def test_narrow_screen_is_enough(browser: Browser, shown: Path, fragment: str) -> None:
    """The page fits a screen that is 400 pixels wide; wide tables scroll by themselves."""
    browser.open(shown, fragment, width=400)
    assert browser.run("document.documentElement.scrollWidth") <= 400


def test_everything_is_reached_by_keyboard(browser: Browser, shown: Path) -> None:
    """Everything that reacts to a click is a button, a link or a field, and has a name."""
    browser.open(shown, "#mine")
    clicked = "[...document.querySelectorAll('canvas[data-map]')].every(c => c.tabIndex === 0)"
    assert browser.run(clicked)
    assert browser.run("document.querySelectorAll('[onclick]').length") == 0
    named = (
        "[...document.querySelectorAll('select, input')].every(f => f.labels.length || f.ariaLabel)"
    )
    assert browser.run(named)


def test_twenty_submissions_are_below_two_megabytes() -> None:
    """The page of 60 reports stays below 2 MB.

    The reports are of 20 submissions on three references, with 80 cases each and 300 lines of
    source.
    """
    one = samples.wrong()
    pictured = one.cases[1].picture, one.cases[2].picture
    many = [
        samples.replaced(one, number, pictured if number % 3 == 0 else ()) for number in range(60)
    ]
    text = page(pairs_of(many, samples.results()), "")
    assert len(text.encode()) < 2_000_000
