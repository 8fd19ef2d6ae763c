"""Kinds of faults that a worker reports, of baselines, and of moves of a model to the device."""

from typing import Literal, get_args

ClaimedKind = Literal[
    "build",
    "refusal",
    "launch refused",
    "unsupported",
    "out of memory",
    "exception",
]
"""Kinds of faults that a worker reports itself."""
NOBODY_ASKED = "the submission did not check cudaGetLastError()"
"""Part of the message of a fault that the submission itself did not notice."""
FaultKind = ClaimedKind | Literal["library", "budget"]
"""All kinds of faults; the last two only the device can detect."""

BaselineKind = Literal["eager", "cudnn.benchmark", "torch.compile"]
BASELINE_KINDS: tuple[BaselineKind, ...] = get_args(BaselineKind)
BASELINE_PRECISIONS = ("fp32", "tf32")
"""Precisions in which each kind of baseline is timed: without TF32, and with TF32 allowed."""

Move = Literal[
    "cuda()", "cuda(device)", "to('cuda')", "to('cuda:0')", "to(device)", "to(device=device)"
]
"""A call with which users move a model to the device; `device` is `torch.device("cuda")`."""
