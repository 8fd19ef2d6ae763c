"""PTX made ready to run: device functions inlined, names resolved, cut into basic blocks."""

from harness.simulator.lowering.kernel import prepare

__all__ = ["prepare"]
