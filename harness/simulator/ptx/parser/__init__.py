"""Parser from PTX text to a `Module`: declarations, and instructions with their operands.

The meaning of an instruction belongs in instructions/, the lowering of a module in lowering/.
"""

from harness.simulator.ptx.parser.module import parse

__all__ = ["parse"]
