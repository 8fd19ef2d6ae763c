"""PTX made ready to run: device functions inlined, names resolved, cut into basic blocks.

The result is a `Program`, which execution/ runs; nothing is run here.
"""

from harness.simulator.lowering.kernel import prepare

__all__ = ["prepare"]
