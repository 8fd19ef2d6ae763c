"""Parser that turns PTX text into a `Module` of declarations and instructions with operands.

What an instruction computes belongs in instructions/; the lowering of a module belongs in
lowering/.
"""

from harness.simulator.ptx.parser.module import parse

__all__ = ["parse"]
