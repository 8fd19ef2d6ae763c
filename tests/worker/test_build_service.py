"""The builds of extensions that the trusted side makes for a worker, and the limit on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.compiler.cache import Cache, default_root
from harness.compiler.flags import Extension
from harness.compiler.toolchain import DEFAULT_ARCHITECTURE, find_toolchain
from harness.messages.channel import ProtocolError
from harness.simulator.native.library import build_libraries
from harness.system.allowance import Allowance
from harness.worker import build_service
from harness.worker.build_service import BuildService
from harness.worker.settings import Settings

# A library of this many bytes, which takes no time to write.
LARGE = 'asm(".data\\n.fill 700000, 1, 7\\n.text"); int number = {};'


def test_builds_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of all builds for one worker are limited, because the trusted side holds them."""
    monkeypatch.setattr(build_service, "_MOST_BUILT_BYTES", 1 << 20)
    submission = tmp_path / "mine.py"
    submission.write_text("")
    toolchain = find_toolchain()
    libraries = build_libraries(Cache(default_root()), toolchain)
    settings = Settings(
        submission, "simulator", DEFAULT_ARCHITECTURE, tmp_path / "cache", toolchain, libraries
    )
    service = BuildService(settings, 600.0, Allowance(600.0), lambda _: None)

    def build(number: int) -> None:
        sources = (("main.cpp", LARGE.format(number)),)
        service.serve(Extension("large", sources, with_cuda=False))

    for _ in range(2):
        build(0)
    with pytest.raises(ProtocolError, match="of builds"):
        build(1)
