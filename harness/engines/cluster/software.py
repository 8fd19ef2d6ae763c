"""Versions that the sender and the workers of a cluster must share, since reports are compared."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from harness.compiler.flags import torch_version
from harness.compiler.toolchain import ToolchainError, find_cuda_compiler
from harness.engines.finished import harness_digest
from harness.gpu.release import cuda_here
from harness.version import __version__


@dataclass(frozen=True)
class Software:
    """Versions of the software on one machine that can change an evaluation's result.

    Attributes:
        harness: Version of the harness and a digest of its files.
        torch: Version of torch without the suffix of its build, such as `+cpu`, since a sender
            needs no GPU.
        nvcc: Version of nvcc; empty without nvcc, which a sender does not need.
    """

    harness: str
    torch: str
    nvcc: str

    def why_other(self, sender: Software) -> str:
        """Return one line that says how these versions differ from the sender's, or "" if equal."""
        pairs = (
            ("the harness", self.harness, sender.harness),
            ("torch", self.torch, sender.torch),
            ("nvcc", self.nvcc, sender.nvcc or self.nvcc),
        )
        told = [
            f"{name} is {here or 'missing'} there and {there} here"
            for name, here, there in pairs
            if here != there
        ]
        return f"{', '.join(told)}; install the same on both" if told else ""


@functools.cache
def software() -> Software:
    """Return the versions of the harness, torch and nvcc on this machine."""
    try:
        nvcc = find_cuda_compiler(cuda_here()).version
    except ToolchainError:
        nvcc = ""
    own = f"{__version__} ({harness_digest()[:12]})"
    return Software(own, torch_version().partition("+")[0], nvcc)
