"""From PTX text to a `Module`: declarations, and instructions with their operands.

What an instruction does is in instructions/; what a module becomes is in lowering/.
"""

from harness.simulator.ptx.parser.module import parse

__all__ = ["parse"]
