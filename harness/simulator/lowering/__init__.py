"""Lowering of PTX to a `Program`: inlines functions, resolves names and cuts basic blocks.

The package execution/ runs the program; nothing runs here.
"""

from harness.simulator.lowering.kernel import prepare

__all__ = ["prepare"]
