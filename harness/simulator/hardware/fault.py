"""What stops a kernel."""

from typing import Literal

Fault = Literal["illegal address", "misaligned address"]
"""What makes real hardware stop a kernel. A finding does not have to: what lies a few bytes beside
an allocation is memory as well."""
