"""Evidence about a case: all that its calls have shown so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.finding import Finding
from harness.judging.causes import is_late, parted
from harness.judging.division import Division
from harness.judging.integrity import Judged
from harness.judging.kept_bits import Rounding
from harness.judging.picture import WrongOutput
from harness.judging.result_bits import NarrowResults
from harness.records.comparison import Comparison, Mismatch, Precision
from harness.records.findings import failing_findings

# The most elements of an output that is kept. A diagnosis needs small outputs, and many large ones
# would fill the memory.
MOST_REMEMBERED = 1 << 20


@dataclass
class CaseEvidence:
    """All that the calls of a case have shown, in the order of the calls.

    Attributes:
        comparisons: The comparison of each call's outputs with the oracle, by the call's name.
        findings: Findings of the calls, except those that other findings explain.
        explained: Findings that other findings explain.
        late_outputs: Number of calls whose outputs were wrong because kernels ran too late.
        faults: Sentences about invalid outputs.
        notes: Notes of the case.
        wrong: The first output that has the right shape and wrong elements; None if there is none.
        other: Another output that shows the failure, as in `CaseOutcome.other`.
        wrong_shape: Shape of an output that has the right number of dimensions and wrong sizes;
            None if there is no output with such a shape.
        limits: The worst error that each precision class allows, from the first call.
        telling: The loosest class that says something about the case; None before the first call.
        shares: The share of the work that the submission's kernels did, of each judged call.
        division: How the work is divided between torch and the kernels; None if unknown.
        left: Operators of the reference that the submission leaves to torch.
        movers: Operators of torch that moved the numbers of a reference that only moves numbers.
        fallback: Why torch does the work in this case, though not in the own configuration; empty
            if it does not.
        roundings: Roundings of operands or results to fewer bits.
        bits: Digest of the outputs of each run's first call, by the run's name.
        deterministic: True if a repeated call gave the same bits; None if none was compared.
    """

    comparisons: dict[str, Comparison] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    explained: list[Finding] = field(default_factory=list)
    late_outputs: int = 0
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wrong: WrongOutput | None = None
    other: WrongOutput | None = None
    wrong_shape: tuple[int, ...] | None = None
    limits: Mapping[Precision, float] = field(default_factory=dict)
    telling: Precision | None = None
    shares: list[float] = field(default_factory=list)
    division: Division | None = None
    left: tuple[str, ...] = ()
    movers: tuple[str, ...] = ()
    fallback: str = ""
    roundings: list[Rounding | NarrowResults] = field(default_factory=list)
    bits: dict[str, str] = field(default_factory=dict)
    deterministic: bool | None = None

    @property
    def is_amiss(self) -> bool:
        """True if any call so far has a wrong output, an invalid answer or a failing finding."""
        wrong = any(each.mismatch for each in self.comparisons.values())
        return wrong or bool(self.faults) or bool(failing_findings(self.findings))

    def take(self, found: Sequence[Finding]) -> None:
        """Store a call's findings: causes in one list, findings that causes explain in another."""
        causes, explained = parted(found)
        self.findings += causes
        self.explained += explained

    def take_work(self, judged: Sequence[Finding], found: Sequence[Finding]) -> None:
        """Store findings about a call's work.

        If the call's kernels ran too late, the delay explains the findings, which are only counted.

        Args:
            judged: The findings about the work.
            found: All other findings of the call.
        """
        kept = self.explained if is_late(found) else self.findings
        kept += judged

    def keep_work(self, judged: Judged, found: Sequence[Finding], own: Division | None) -> None:
        """Store the judgement of whether the submission's kernels did a call's work.

        If the problem's own configuration passed, findings about torch's work do not fail other
        cases. Instead, another case is declined if torch does more work there than in the own
        configuration.

        Args:
            judged: The judgement.
            found: Findings of the call.
            own: The division in the problem's own configuration; None unless that passed.
        """
        self.shares += [judged.share] if judged.share is not None else []
        if judged.division:
            self.division = judged.division.joined(self.division)
            self.left = self.left or judged.left
            self.movers = self.movers or judged.movers
        if not (own and judged.division and judged.is_of_torch):
            self.take_work(judged.findings, found)
        elif not judged.division.is_like(own):
            self.fallback = self.fallback or judged.findings[0].message

    def remember(
        self,
        wrong: WrongOutput,
        mismatch: Mismatch | None,
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        """Keep a wrong output for the diagnosis and the picture, unless it is too large.

        Args:
            wrong: The output.
            mismatch: How it differs; None if only a kernel wrote beside it.
            shapes: The shape of each output of the reference; empty if unknown.
        """
        actual = wrong.actual
        if mismatch and mismatch.index is None:
            if not shapes or not shapes[wrong.output] or len(shapes[wrong.output]) != actual.dim():
                return
            self.wrong_shape = tuple(actual.shape)
        if actual.numel() > MOST_REMEMBERED:
            return
        inputs = tuple(tensor.cpu() for tensor in wrong.values.inputs)
        kept = replace(wrong, values=replace(wrong.values, inputs=inputs))
        if mismatch and mismatch.index is not None:
            self.wrong = kept
        else:
            self.other = self.other or kept

    def before(self) -> CaseEvidence:
        """Return what `go_back` needs to undo the failures of the next call."""
        return replace(self, findings=list(self.findings))

    def go_back(self, before: CaseEvidence, call: str) -> None:
        """Drop the failures that a call has shown; `before` is the state in which it began."""
        self.findings, self.faults, self.wrong = before.findings, [], None
        self.other, self.fallback = before.other, before.fallback
        self.comparisons.pop(call, None)
