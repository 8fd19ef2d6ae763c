"""Compilation of the extensions that a worker requests, with a cache of finished builds.

Requests come from untrusted code. So the supervisor checks them, and runs compilers in a sandbox.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from harness.compiler.builder import Builder
from harness.compiler.cache import Cache, Entry
from harness.compiler.compiler import Compiler
from harness.compiler.flags import Extension
from harness.compiler.ninja import CompileError
from harness.messages.channel import Answer, ProtocolError
from harness.sandbox.confined import places
from harness.simulator.hardware.resources import assembled, resource_usage
from harness.simulator.ptx.fatbinary import (
    DeviceCode,
    FatBinaryError,
    device_code_of,
    images_in,
)
from harness.system.allowance import Allowance
from harness.worker.settings import Settings
from harness.worker.steps import Built

_MOST_ASKS = 256
# Limit of all builds of one worker: this side holds them in memory. Real ones take a hundredth.
_MOST_BUILT_BYTES = 1 << 30
_NOTHING = torch.empty(0, dtype=torch.uint8)


@dataclass(frozen=True)
class BuildEvent:
    """The beginning, the end or the failure of an extension's build.

    Attributes:
        name: Name of the extension.
        entry: The finished build in the cache; None if the build has begun or has failed.
        refusal: The compiler's error; empty if there is none.
    """

    name: str
    entry: Entry | None = None
    refusal: str = ""


class BuildService:
    """A service that builds the extensions that one worker requests."""

    def __init__(
        self,
        settings: Settings,
        seconds: float,
        together: Allowance,
        on_build: Callable[[BuildEvent], None],
    ) -> None:
        """Set up the compiler and its sandbox.

        Args:
            settings: The worker's settings.
            seconds: Time limit of each build.
            together: Time that is left for the builds of all workers of the check.
            on_build: Function that is called when a build begins, ends or fails.
        """
        sources = {**places(settings.submission), **settings.carried}
        # Compilers do not need the submission's Python. If they saw it, it would have to be part of
        # each build's key.
        del sources[settings.submission]
        self._toolchain = settings.toolchain
        self._cache = Cache(settings.cache)
        self._compiler = Compiler(
            settings.toolchain,
            settings.readable,
            sources,
            seconds,
            together,
            must_be_confined=settings.untrusted,
        )
        self._builder = Builder(
            settings.toolchain, self._cache, settings.target, self._compiler, settings.run
        )
        self._is_on_gpu = settings.device == "cuda"
        self._on_build = on_build
        self._asked = 0
        self._built: dict[str, bytes] = {}

    @property
    def built(self) -> Sequence[bytes]:
        """Contents of the shared objects that the worker has received."""
        return tuple(self._built.values())

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders of the worker's builds in the cache, including builds that do not compile."""
        return tuple(dict.fromkeys(self._builder.folders))

    def serve(self, extension: Extension) -> Answer:
        """Build an extension; the answer has the shared object, or the compiler's error.

        Raises:
            ProtocolError: The worker has sent too many requests.
            harness.compiler.compiler.CompileTimeout: A compiler did not end in time.
        """
        self._asked += 1
        if self._asked > _MOST_ASKS:
            raise ProtocolError(f"more than {_MOST_ASKS} requests to compile something")
        return self._build(extension)

    def resources(self, code: DeviceCode) -> str:
        """Return the text that ptxas prints about the resources of a module's kernels.

        The text is empty if ptxas refuses the module. Raises what `serve` raises.
        """
        try:
            return resource_usage(self._toolchain.cuda, self._compiler, self._cache, code)
        except CompileError:
            return ""

    def cubin(self, code: DeviceCode) -> bytes:
        """Return a module's machine code; empty if ptxas refuses the module.

        Raises what `serve` raises.
        """
        try:
            return assembled(self._toolchain.cuda, self._compiler, self._cache, code)
        except CompileError:
            return b""

    def _build(self, extension: Extension) -> Answer:
        try:
            entry = self._builder.build(
                extension, lambda: self._on_build(BuildEvent(extension.name))
            )
            library = entry.library.read_bytes()
            self._assemble(library)
        except CompileError as error:
            self._on_build(BuildEvent(extension.name, refusal=str(error)))
            return Built(error.output), ()
        self._on_build(BuildEvent(extension.name, entry))
        self._built[entry.library.parent.name] = library
        if sum(map(len, self._built.values())) > _MOST_BUILT_BYTES:
            raise ProtocolError(f"requests for more than {_MOST_BUILT_BYTES >> 30} GiB of builds")
        return Built(), (as_tensor(library),)

    def _assemble(self, library: bytes) -> None:
        """Run ptxas on the device code of a build, as nvcc does; the device needs the result later.

        Raises:
            CompileError: ptxas refuses the code.
        """
        assemble = assembled if self._is_on_gpu else resource_usage
        for code in _device_codes(library):
            try:
                assemble(self._toolchain.cuda, self._compiler, self._cache, code)
            except CompileError as error:
                # The code of several files is not linked here. The device names such a function
                # when a kernel calls it.
                if not re.search(r"unresolved extern", error.output, re.IGNORECASE):
                    raise


def _device_codes(library: bytes) -> Iterator[DeviceCode]:
    """Yield the PTX of each fat binary in a shared object that has PTX."""
    for image in images_in(library):
        with contextlib.suppress(FatBinaryError):
            yield device_code_of(image)


def as_tensor(data: bytes) -> torch.Tensor:
    """Return bytes as a uint8 tensor, because a message carries raw data only as tensors."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else _NOTHING
