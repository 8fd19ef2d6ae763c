"""PTX text -> `Module`."""

from harness.simulator.ptx.parser.module import parse

__all__ = ["parse"]
