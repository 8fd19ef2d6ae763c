"""Kinds of what a worker is and says: of faults, and of baselines."""

from typing import Literal, get_args

ClaimedKind = Literal[
    "build",
    "refusal",
    "launch refused",
    "unsupported",
    "out of memory",
    "exception",
]
"""Of faults that a worker tells."""
NOBODY_ASKED = "nobody asked cudaGetLastError()"
"""In the message of a fault that a submission itself has not noticed."""
FaultKind = ClaimedKind | Literal["library", "budget"]
"""The last two the device alone can know."""

BaselineKind = Literal["eager", "cudnn.benchmark", "torch.compile"]
BASELINE_KINDS: tuple[BaselineKind, ...] = get_args(BaselineKind)
BASELINE_PRECISIONS = ("fp32", "tf32")
"""What each kind of baseline is timed with: without TF32, and allowed to use it."""
