"""Calls of the CUDA runtime by compiled host code, handled by the simulator's runtime.

runtime.cu prints the result of each call. runtime.txt has the expected output, which a GPU prints,
too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.compiler.builder import Builder
from harness.compiler.cache import Cache, default_root
from harness.compiler.compiler import Compiler
from harness.compiler.flags import Extension, Target
from harness.compiler.toolchain import find_toolchain
from harness.simulator.native.library import build_libraries
from harness.system import interpreter
from tests.simulator.support import runtime_first
from tests.support import run

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("runtime.cu")

SCRIPT = """
import ctypes, faulthandler, sys
from pathlib import Path
from harness.compiler.cache import Cache, default_root
from harness.compiler.compiler import Compiler
from harness.compiler.toolchain import find_toolchain
from harness.simulator.native.library import Libraries
from harness.simulator.hardware.resources import parse_usage, resource_usage
from tests.simulator.connected import Connected

toolchain, cache = find_toolchain(), Cache(default_root())
compiler = Compiler(toolchain)

def usage(code):
    return parse_usage(resource_usage(toolchain.cuda, compiler, cache, code))

libraries = Libraries(*map(Path, sys.argv[1:5]))
device = Connected(libraries, usage)
program = ctypes.CDLL(sys.argv[5])
# Where that has been called, managed memory must work all the same.
faulthandler.enable()

def observe(what):
    told = device.observe()
    seen = [f"{f.check}: {f.message} in {f.kernel}:{f.line}" for f in told.findings]
    if told.failure:
        seen = [f"{told.failure.kind}: {told.failure.message}"]
    print(f"[{what}]", *seen, sep="\\n", flush=True)

for name in sys.argv[6:]:
    device.recover()
    assert program.run(name.encode()) == 0
    observe(f"{name} observed")
device.recover()
print("[clusters]", program.launch_clusters(), sep="\\n")
observe("clusters observed")
device.recover()
print("[early]", *(program.launch_early(n) for n in (1, 2, 3, 0)), sep="\\n")
observe("early observed")
device.recover()
for n in range(13):
    print(f"[change {n}]", program.change_pinned(n), sep="\\n")
    observe(f"change {n} observed")
print("[deep]", *(program.recurse_deeply(*each) for each in ((64, 0), (129, 0))), sep="\\n")
observe("deep observed")
device.recover()
print("[deep with more]", *(program.recurse_deeply(*each) for each in ((256, 4096), (4096, 65536))),
      program.recurse_deeply(1, 512 << 10), sep="\\n")
observe("deep with more observed")
print("[deeper]", program.recurse_deeply(10000, 256 << 10), sep="\\n")
observe("deeper observed")
device.recover()
print("[entry points]", program.ask_driver(b"cuTensorMapEncodeTiled"), sep="\\n")
print(program.ask_driver(b"cuNothing"))
observe("entry points observed")
print("[destroyed stream]", program.use_destroyed_stream(), sep="\\n")
"""


def sections(text: str) -> dict[str, list[str]]:
    """Return, by heading in brackets, the lines below the heading."""
    parts = re.split(r"^\[(.+)\]$", text, flags=re.MULTILINE)[1:]
    return {
        name: body.split("\n")[1:-1] for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


EXPECTED = sections(SOURCE.with_suffix(".txt").read_text())


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Run all scenarios of runtime.cu; return their output and the device's observations."""
    cache, toolchain = Cache(default_root()), find_toolchain()
    libraries = build_libraries(cache, toolchain)
    extension = Extension("runtime", ((SOURCE.name, SOURCE.read_text()),))
    compiler = Compiler(toolchain)
    program = Builder(toolchain, cache, Target("simulator"), compiler).build(extension)
    folder = tmp_path_factory.mktemp("runtime")
    (folder / "script.py").write_text(SCRIPT)
    paths = (*vars(libraries).values(), program.library)
    command = [interpreter.command("harness")[0], "script.py", *map(str, paths), *EXPECTED]
    done = run(command, folder, **runtime_first(libraries))
    assert done.status == 0, done.err
    return sections(done.out)


@pytest.mark.parametrize("scenario", EXPECTED)
def test_calls_answer_as_cuda_does(answers: dict[str, list[str]], scenario: str) -> None:
    """Every runtime call of a scenario returns what CUDA returns, and has CUDA's effect."""
    assert answers[scenario] == EXPECTED[scenario]


@pytest.mark.parametrize("scenario", [name for name in EXPECTED if "broken" not in name])
def test_correct_use_finds_nothing(answers: dict[str, list[str]], scenario: str) -> None:
    """A scenario of correct calls and refused launches leaves no findings."""
    assert answers[f"{scenario} observed"] == []


def line_of(text: str) -> int:
    """Return the number of the only line of runtime.cu that contains the text."""
    (number,) = (n for n, row in enumerate(SOURCE.read_text().split("\n"), 1) if text in row)
    return number


@pytest.mark.parametrize(
    ("scenario", "kernel", "message"),
    [
        (
            "null_pointer",
            "void add(",
            "memcheck: 4-byte load through a null pointer: 0x0 in add:{}",
        ),
        ("misaligned_address", "void misaligned(", "misaligned 4-byte store: address"),
        ("assert", "void asserts(", "KernelTrap: asserts: assertion failed in block (0, 0, 0)"),
        ("trap", "void traps(", "KernelTrap: traps: trap in block (0, 0, 0), thread (0, 0, 0) at"),
    ],
)
def test_what_broke_the_context_is_observed(
    answers: dict[str, list[str]], scenario: str, kernel: str, message: str
) -> None:
    """The device reports the cause and the source line of an error that breaks the CUDA context.

    The runtime calls themselves only return an error code.
    """
    first = answers[f"broken_by_{scenario} observed"][0]
    assert message.format(line_of(kernel)) in first
    assert first.endswith(f":{line_of(kernel)}")


def test_what_is_missing_is_named(answers: dict[str, list[str]]) -> None:
    """A CUDA feature that the device lacks returns an error code.

    The device also reports the feature by name.
    """
    assert answers["clusters"] == ["801"]
    assert answers["clusters observed"] == [
        "unsupported: the harness's device does not support clusters of more than one block"
    ]
    assert answers["entry points"] == ["0", "1001"]
    assert answers["entry points observed"] == [
        "unsupported: the harness's device does not support cuNothing()"
    ]


def test_kernel_that_overlaps_with_the_one_before(answers: dict[str, list[str]]) -> None:
    """A programmatic dependent launch is unsupported if nothing waits for the kernel before it.

    It runs if it calls cudaGridDependencySynchronize(), if the host waits, or after a memset.
    """
    assert answers["early"] == ["0", "0", "0", "801"]
    assert answers["early observed"] == [
        "unsupported: the harness's device does not support programmatic dependent launches "
        "without cudaGridDependencySynchronize()"
    ]


@pytest.mark.parametrize("waiting", [0, 1, 2, 3])
def test_change_of_what_a_copy_may_still_read(answers: dict[str, list[str]], waiting: int) -> None:
    """Host code must wait for an asynchronous copy before it changes the copy's pinned source.

    A wait for other work does not help.
    """
    assert answers[f"change {waiting}"] == ["0"]
    assert answers[f"change {waiting} observed"] == [
        "racecheck: the host changed byte 4000 of 4096 bytes of pinned memory, which an "
        "asynchronous copy may read until the host has waited for it in :None"
    ]


@pytest.mark.parametrize("waiting", range(4, 13))
def test_change_of_what_no_copy_reads(answers: dict[str, list[str]], waiting: int) -> None:
    """Host code may change pinned memory behind a wait, and what no copy reads at any time."""
    assert answers[f"change {waiting}"] == ["0"]
    assert answers[f"change {waiting} observed"] == []


def test_recursion_within_the_stack(answers: dict[str, list[str]]) -> None:
    """A recursion runs if its frames fit in the stack whose size the program has set.

    The depths are the largest that a GPU runs, where each frame of this function has 16 bytes. CUDA
    refuses a stack of 512 KiB.
    """
    assert answers["deep"][0] == "0"
    assert answers["deep with more"] == ["0", "0", "-1"]
    assert answers["deep with more observed"] == []


def test_recursion_beyond_the_stack(answers: dict[str, list[str]]) -> None:
    """A recursion fails with an illegal address if its return addresses alone exceed the stack.

    The device reports the line of the recursive call.
    """
    assert answers["deep"][1] == "700"
    assert answers["deep observed"] == [
        "memcheck: the recursion needs more than the stack's 1024 bytes; raise cudaLimitStackSize "
        f"in recurse:{line_of('// the recursion')}"
    ]


def test_recursion_too_deep_for_the_simulator(answers: dict[str, list[str]]) -> None:
    """A recursion that fits a GPU's stack, but not the simulator's memory, is unsupported."""
    assert answers["deeper"] == ["801"]
    assert answers["deeper observed"] == [
        "unsupported: the harness's device does not support a recursion as deep as this"
    ]


def test_destroyed_stream_is_refused(answers: dict[str, list[str]]) -> None:
    """A launch on a destroyed stream returns cudaErrorInvalidResourceHandle.

    CUDA leaves such a launch undefined.
    """
    assert answers["destroyed stream"] == ["400"]
