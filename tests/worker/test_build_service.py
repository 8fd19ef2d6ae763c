"""The builds of extensions that the trusted side makes for a worker, and the limit on them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.compiler.cache import Cache, default_root
from harness.compiler.flags import Extension
from harness.compiler.toolchain import DEFAULT_ARCHITECTURE, find_toolchain
from harness.messages.channel import ProtocolError
from harness.simulator.native.library import build_libraries
from harness.system.allowance import Allowance
from harness.worker import build_service
from harness.worker.build_service import BuildEvent, BuildService
from harness.worker.settings import Settings
from harness.worker.steps import Built

# A library of this many bytes, which takes no time to write.
LARGE = 'asm(".data\\n.fill 700000, 1, 7\\n.text"); int number = {};'

# Kernels that nvcc makes PTX of, and ptxas refuses: (name, source, ptxas' words).
REFUSED = (
    (
        "shared memory",
        """__global__ void k(int *p) {
  __shared__ int values[12289];
  values[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = values[threadIdx.x ^ 1];
}""",
        "uses too much shared data",
    ),
    (
        "constants",
        """__constant__ int table[16385];
__global__ void k(int *p) { p[threadIdx.x] = table[threadIdx.x]; }""",
        "uses too much|too much global constant",
    ),
    (
        "inline PTX",
        """__global__ void k(int *p) { asm volatile("not.an.instruction;"); }""",
        "Unknown modifier",
    ),
)


def service_in(tmp_path: Path, events: list[BuildEvent]) -> BuildService:
    """Return a service with an empty cache that adds the events of its builds to `events`."""
    submission = tmp_path / "mine.py"
    submission.write_text("")
    toolchain = find_toolchain()
    libraries = build_libraries(Cache(default_root()), toolchain)
    settings = Settings(
        submission, "simulator", DEFAULT_ARCHITECTURE, tmp_path / "cache", toolchain, libraries
    )
    return BuildService(settings, 600.0, Allowance(600.0), events.append)


def test_builds_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of all builds for one worker are limited, because the trusted side holds them."""
    monkeypatch.setattr(build_service, "_MOST_BUILT_BYTES", 1 << 20)
    service = service_in(tmp_path, [])

    def build(number: int) -> None:
        sources = (("main.cpp", LARGE.format(number)),)
        service.serve(Extension("large", sources, with_cuda=False))

    for _ in range(2):
        build(0)
    with pytest.raises(ProtocolError, match="of builds"):
        build(1)


@pytest.mark.parametrize(
    ("source", "words"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_code_that_ptxas_refuses_does_not_compile(tmp_path: Path, source: str, words: str) -> None:
    """A build fails with ptxas' message if ptxas refuses its PTX, as a build by nvcc for a GPU."""
    events: list[BuildEvent] = []
    asked = Extension("refused", (("code.cu", source),))
    answer, _ = service_in(tmp_path, events).serve(asked)
    assert isinstance(answer, Built)
    assert re.search(words, answer.error or "")
    assert re.search("error", events[-1].refusal)
