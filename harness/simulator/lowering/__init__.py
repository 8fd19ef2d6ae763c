"""Lowering: the translation of a PTX kernel to a `Program`, which the package execution/ runs.

Lowering inlines functions, resolves names, and divides the code into basic blocks.
"""

from harness.simulator.lowering.kernel import prepare

__all__ = ["prepare"]
