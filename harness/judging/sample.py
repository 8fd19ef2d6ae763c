"""Judgement of a call in which only a random sample of the thread blocks ran."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from harness.device.executor import KERNEL
from harness.device.record import TO_HOST
from harness.device.requests import Evidence
from harness.finding import Finding
from harness.judging.answered import Output
from harness.simulator.native.bindings import UNWRITTEN


def why_untold(evidence: Evidence, outputs: Sequence[Output]) -> str:
    """Return why a sample of blocks does not show whether a call is right, or "".

    The share of each output that kernels wrote must be at least the share of blocks that ran.
    Neither torch nor the host may use values that kernels wrote, since the values of blocks that
    did not run are missing.

    Args:
        evidence: What the device did in the call.
        outputs: The outputs of the call.
    """
    share = evidence.share_of_blocks
    if any(work.of_kernels for work in evidence.during):
        return "operators of torch use what its kernels wrote"
    if any(work.name == TO_HOST for work in evidence.during):
        return "it copies to the host"
    for output in outputs:
        written = int((output.writers == KERNEL).sum())
        if written < math.floor(share * output.value.numel()):
            return f"the blocks that ran wrote {written} of {output.value.numel()} output elements"
    return ""


def as_parts(output: Output) -> Output:
    """Return an output in which only the elements that kernels wrote count as written."""
    is_known = output.writers == KERNEL
    unwritten = torch.full_like(output.writers, UNWRITTEN)
    return replace(output, writers=torch.where(is_known, output.writers, unwritten))


def caused_alone(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that cannot be due to the blocks that did not run."""
    return [each for each in findings if not each.kernel or each.check in ("memcheck", "synccheck")]
