"""PTX text -> `Module`."""

from harness.simulator.parser.module import parse

__all__ = ["parse"]
