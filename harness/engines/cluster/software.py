"""Versions that sender and worker must have in common, since reports are compared."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from harness import __version__
from harness.compiler.flags import torch_version
from harness.compiler.toolchain import ToolchainError, find_cuda_compiler
from harness.engines.finished import own_digest
from harness.gpu.release import cuda_here


@dataclass(frozen=True)
class Software:
    """What of a machine decides how an evaluation goes.

    Attributes:
        harness: Version, and a digest of its files.
        torch: Version, without what it was built for: a sender need not have a GPU.
        nvcc: Version; empty where there is none, as a sender needs none.
    """

    harness: str
    torch: str
    nvcc: str

    def why_other(self, sender: Software) -> str:
        """In one line what is other here than at the sender's; empty where nothing is."""
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
    """This machine's."""
    try:
        nvcc = find_cuda_compiler(cuda_here()).version
    except ToolchainError:
        nvcc = ""
    own = f"{__version__} ({own_digest()[:12]})"
    return Software(own, torch_version().partition("+")[0], nvcc)
