"""The report that the harness should give for each submission of the adversarial corpus.

Each cheat belongs to a family of tricks that submissions have used against evaluators:

- A: not doing the work
- B: remembering results
- C: detecting the evaluation
- D: attacking the clock
- E: attacking the judge
- F: numerics
- G: evading the record of which kernels did the work
- H: attacking this harness in particular
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.records.comparison import PRECISIONS, Precision
from harness.records.report import Report, Verdict

OWN_WORK = "own work"
WRONG = "own work|differ from the reference|are wrong|not finite|never written"
REPLACED = "replaced"
READ_ONLY = (
    "Read-only file system|Permission denied|Operation not permitted|No such file|uid not found"
)
PROTOCOL = "the worker sent"


@dataclass(frozen=True)
class Cheat:
    """The report that the harness should give for one cheating submission.

    Attributes:
        family: Letter of the cheat's family, A to H.
        entry: Short description of the trick.
        says: Regular expression that the report's text must match if the cheat does not pass.
        verdicts: The verdicts that the harness may give, besides a pass that `precision` allows.
        precision: The tightest precision class (fp32, tf32, bf16, fp16) in which the cheat may
            pass. None if it must not pass.
        notes: Regular expression that the report's notes must match if the cheat passes.
        only_on_gpu: Reason why the trick works only on a GPU; empty if it works on the simulator.
        on_gpu: Regular expression that the report's text or the speed test's findings must match
            on a GPU.
        unlike_naive: Reason why naive.py is not fooled by the cheat; empty if it is fooled.
        cases: Number of cases to check the cheat in. The tests use the same two cases for all
            cheats, but only the first for a cheat that ends its worker in each case.
        only_case: Id of the only case that shows the cheat; empty if the usual cases show it.
        needs_sandbox: True if only a sandbox prevents the attack.
        reference: Name of the cheat's reference in tests/references; empty for the reference of the
            corpus.
    """

    family: str
    entry: str
    says: str = ""
    verdicts: tuple[Verdict, ...] = ("failed", "error")
    precision: Precision | None = None
    notes: str = ""
    only_on_gpu: str = ""
    on_gpu: str = ""
    unlike_naive: str = ""
    cases: int = 2
    only_case: str = ""
    needs_sandbox: bool = False
    reference: str = ""

    def shown_by(self, cases: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of the cases to check the cheat in.

        `cases` has the ids of the cases that the tests use for all cheats.
        """
        return (self.only_case,) if self.only_case else cases[: self.cases]

    def is_caught(self, report: Report) -> bool:
        """Return whether a report on the cheat has a verdict and texts that this object allows."""
        if report.verdict == "passed" and self.precision and report.precision:
            is_loose = PRECISIONS.index(report.precision) >= PRECISIONS.index(self.precision)
            return is_loose and re.search(self.notes, "\n".join(report.notes)) is not None
        found = re.search(self.says, text_of(report), re.IGNORECASE)
        return report.verdict in self.verdicts and found is not None


def text_of(report: Report) -> str:
    """Return all messages, details and findings of a report as one text."""
    lines = [report.message, report.detail]
    for case in report.cases:
        lines += [case.message, case.detail]
        lines += [f"{finding.check}: {finding.message}" for finding in case.findings]
    return "\n".join(lines)


_WRONG_ON_GPU = "differ from the reference|is wrong"
_NOT_NAIVE_TIMES = "the naive evaluator takes times from the host"
_ESCAPE = "what it wins comes after the evaluation"
_REFUSED = "the simulated device refuses it, whoever evaluates"
_ELSEWHERE = "it is written against this harness"

CHEATS: Mapping[str, Cheat] = {
    # A. Not doing the work.
    "recycled_memory": Cheat(
        "A",
        "the reference's freed output, out of recycled memory",
        "never written",
        unlike_naive="the simulated device recycles no memory; a GPU's allocator does",
    ),
    "constant_zeros": Cheat(
        "A",
        "zeros where the reference is smaller than the tolerance",
        WRONG,
        unlike_naive="its reference's outputs are larger than its tolerance",
    ),
    "inherits_forward": Cheat("A", "inherits the library's forward", OWN_WORK),
    "reexports_reference": Cheat("A", "exports a copy of the reference", OWN_WORK),
    "fallback_on_error": Cheat("A", "try, and except falls back", OWN_WORK),
    "alias": Cheat("A", "the operator by an alias", OWN_WORK),
    "torch_convolution": Cheat("A", "torch.convolution", OWN_WORK),
    "aten_operator": Cheat("A", "torch.ops.aten", OWN_WORK),
    "convolution_backward": Cheat(
        "A", "the gradient of a convolution", OWN_WORK, unlike_naive=_REFUSED
    ),
    "library_in_cpp": Cheat("A", "at:: in the C++ string", OWN_WORK),
    "library_on_cpp_thread": Cheat("A", "at:: on a C++ thread", OWN_WORK),
    "cublas": Cheat(
        "A",
        "cuBLAS from the extension",
        "cublas",
        on_gpu="cublas|gemm",
        unlike_naive="the simulator has no cuBLAS",
    ),
    "holds_module": Cheat("A", "holds an nn.ConvTranspose1d and calls it", OWN_WORK),
    "decoy_kernel": Cheat("A", "a kernel whose result is not used", OWN_WORK),
    "copied_by_own_kernel": Cheat("A", "its kernel only copies the library's output", OWN_WORK),
    "matmul_and_fold": Cheat("A", "a matrix product and F.fold", OWN_WORK),
    "einsum_then_own_sum": Cheat("A", "einsum for all products", OWN_WORK),
    "relu_by_lookup": Cheat(
        "A",
        "a table of signs, and a fill under its mask",
        OWN_WORK,
        unlike_naive="it has a reference of its own",
        cases=1,
        reference="relu",
    ),
    "fourier": Cheat("A", "torch.fft", f"{OWN_WORK}|{WRONG}"),
    "shift_and_add": Cheat("A", "elementwise operators of PyTorch", OWN_WORK),
    "numpy_on_host": Cheat("A", "NumPy on the host", OWN_WORK),
    "library_in_another_process": Cheat(
        "A", "the library in a process of its own", f"{OWN_WORK}|Resource|not permitted"
    ),
    "disguised_operator": Cheat("A", "the library behind a registered operator", OWN_WORK),
    "norm_products": Cheat("A", "products as differences of squared norms", OWN_WORK),
    "int8_products": Cheat(
        "A",
        "a library's product under an unusual name",
        OWN_WORK,
        unlike_naive=_REFUSED,
    ),
    "answers_in_arguments": Cheat("A", "the answer in the arguments of its kernels", OWN_WORK),
    "works_on_the_host": Cheat(
        "A",
        "host code forms the products in the device's memory",
        "host code accessed device memory",
        unlike_naive=_REFUSED,
        cases=1,
    ),
    "modes_switched_off": Cheat("A", "the library with dispatch modes off", OWN_WORK),
    "returns_input": Cheat(
        "A",
        "returns its input",
        "shares memory|shape",
        unlike_naive="its reference changes the input's shape",
    ),
    "lazy_tensor": Cheat("A", "a lazily evaluated tensor subclass", "not a tensor"),
    "empty_sequence": Cheat("A", "an empty sequence", "not a tensor"),
    "interior_only": Cheat(
        "A",
        "interior only",
        WRONG,
        unlike_naive="it compares every element",
    ),
    "tail_missing": Cheat("A", "tail missing", "never written"),
    "small_weights_dropped": Cheat("A", "one percent wrong", WRONG, precision="bf16"),
    # B. Remembering.
    "cached_by_pointer": Cheat("B", "cached by data pointer", WRONG),
    "cached_by_identity": Cheat("B", "cached by id", WRONG),
    "cached_by_version": Cheat("B", "cached by version counter", WRONG, on_gpu=_WRONG_ON_GPU),
    "cached_by_shape": Cheat("B", "cached by shape and configuration", "shares memory|" + WRONG),
    "cached_by_sample": Cheat("B", "cached by a sample's hash", f"{WRONG}|{OWN_WORK}"),
    "cached_by_content": Cheat("B", "cached by the content's hash", OWN_WORK),
    "stale_weights": Cheat("B", "weights prepared once", WRONG),
    "repacks_on_schedule": Cheat("B", "weights prepared when this harness changes them", WRONG),
    "default_seed_replayed": Cheat("B", "a guessable seed replayed", f"{WRONG}|{OWN_WORK}"),
    "seed_recovered": Cheat(
        "B",
        "the run's seed recovered",
        "the seed is none that people type",
        unlike_naive=_ELSEWHERE,
    ),
    "answers_on_disk": Cheat("B", "answers kept on disk", WRONG),
    "answers_in_environment": Cheat("B", "answers kept in the environment", WRONG),
    "works_every_other_call": Cheat("B", "two calls' work in one", WRONG),
    "static_input": Cheat("B", "the first input's address for ever", WRONG, on_gpu=_WRONG_ON_GPU),
    "graph_replayed": Cheat(
        "B",
        "a CUDA graph replayed onto stale pointers",
        WRONG,
        only_on_gpu="the simulator has no CUDA graphs",
        on_gpu="does not support torch.cuda.CUDAGraph",
        unlike_naive="the simulator has no CUDA graphs",
    ),
    # C. Knowing when it is judged.
    "approximate_when_large": Cheat(
        "C",
        "exact for checked sizes, approximate for timed ones",
        WRONG,
        only_on_gpu="the simulator runs no timed size",
        on_gpu="differ from the reference|wrong",
        unlike_naive="it checks at the size that it times",
    ),
    "approximate_in_unit_interval": Cheat("C", "looks at the magnitude", WRONG, precision="bf16"),
    "exact_for_integers": Cheat("C", "looks at the first few values", WRONG, precision="tf32"),
    "knows_the_distribution": Cheat("C", "looks at the distribution", WRONG, precision="tf32"),
    "walks_the_stack": Cheat("C", "looks for the checker's name", "never written"),
    "knows_the_worker": Cheat(
        "C",
        "looks for calls that are asked for in another way",
        verdicts=("passed",),
        on_gpu="timed without a finding",
        unlike_naive=_ELSEWHERE,
    ),
    "told_by_strides": Cheat(
        "G",
        "passes the host's results as strides of a view",
        "copied from the host",
    ),
    "zeros_when_large": Cheat(
        "A",
        "zeros without a launch above 2^20 numbers",
        WRONG,
        only_case="k3-s1-b1x1x98304-to1-vast",
    ),
    "products_when_set": Cheat(
        "A", "torch multiplies weights in the step that sets them", "aten::mm did"
    ),
    "size_in_pieces": Cheat(
        "C", "wrong at a size that the text does not have", WRONG, only_case="random-1"
    ),
    "moved_otherwise": Cheat("C", "right only after the call that moves it here", WRONG),
    "few_multiprocessors": Cheat(
        "C",
        "right only where few multiprocessors are reported",
        WRONG,
        unlike_naive="it is wrong at large sizes, and not fast at the size that is timed",
        only_case="k3-s1-b1x1x98304-to1-vast",
    ),
    "environment_of_tests": Cheat("C", "test runners' environment variables", "never written"),
    "good_for_three_calls": Cheat("C", "good for the first N calls", WRONG),
    "good_for_seven_calls": Cheat("C", "good for as many calls as a case has", WRONG),
    "reads_late": Cheat(
        "C",
        "reads the input later than allowed",
        WRONG,
        only_on_gpu="the simulator has no torch.cuda._sleep",
        on_gpu="device code that the harness has not compiled",
        unlike_naive="the simulator has no torch.cuda._sleep",
    ),
    # D. Attacking the clock.
    "unjoined_stream": Cheat(
        "D",
        "work on a stream that nobody joins",
        "runs on a stream that the caller's stream does not wait for",
        on_gpu="runs on a stream that the caller's stream does not wait for",
        unlike_naive="the simulated device does it too late, whoever evaluates",
    ),
    "thread_after_return": Cheat("D", "work on a thread after returning", "never written|thread"),
    "event_replaced": Cheat(
        "D",
        "replaces Event",
        REPLACED,
        on_gpu=REPLACED,
        unlike_naive=_NOT_NAIVE_TIMES,
    ),
    "times_underflow": Cheat(
        "D",
        "times so small that a mean underflows",
        REPLACED,
        on_gpu=REPLACED,
        unlike_naive=_NOT_NAIVE_TIMES,
    ),
    "synchronize_replaced": Cheat("D", "replaces synchronize", REPLACED, on_gpu=REPLACED),
    "time_replaced": Cheat("D", "replaces the time module", REPLACED),
    "statistics_replaced": Cheat("D", "replaces statistics", REPLACED),
    "json_replaced": Cheat("D", "replaces JSON", f"{WRONG}|{REPLACED}"),
    "prints_results": Cheat("D", "prints result lines", "exited with status 0", cases=1),
    "writes_descriptors": Cheat("D", "writes to a result descriptor", PROTOCOL, cases=1),
    "prints_at_exit": Cheat("D", "prints its result at exit", WRONG),
    "persisting_l2": Cheat(
        "D",
        "persisting carve-out and access-policy window",
        verdicts=("passed",),
        on_gpu="timed without a finding",
        unlike_naive="the simulator has no L2 cache",
    ),
    "evict_last": Cheat(
        "D",
        "evict-last loads",
        verdicts=("passed",),
        only_on_gpu="the simulator has no L2 cache",
        on_gpu="timed without a finding",
        unlike_naive="the simulator has no L2 cache",
    ),
    "disturbs_neighbour": Cheat("D", "disturbs the neighbour that is timed", "thread"),
    # E. Attacking the judge.
    "allclose_replaced": Cheat("E", "replaces allclose, assert_close, isclose", "never written"),
    "copies_expected_from_frames": Cheat("E", "copies the expected tensor from frames", WRONG),
    "copies_expected_from_gc": Cheat("E", "copies it from the garbage collector's objects", WRONG),
    "poisons_expected": Cheat("E", "fills it with NaN", f"{WRONG}|not finite|nan"),
    "shadows_globals": Cheat("E", "shadows globals that the reference reads", WRONG),
    "zeroes_reference_weights": Cheat("E", "zeroes the reference's weights", WRONG),
    "input_as_scratch": Cheat("E", "changes inputs in place", r"input.*(changed|written)"),
    "weights_zeroed_between": Cheat("E", "changes weights in place", r"weight.*(changed|written)"),
    "moves_precision_flags": Cheat("E", "TF32 and reduced precision at import", "tf32"),
    "slows_reference": Cheat("E", "determinism and cuDNN flags", "cudnn"),
    "default_dtype_lowered": Cheat("E", "the default dtype", "default dtype"),
    "generator_reset": Cheat("E", "resets the random generator", f"{WRONG}|generator|{REPLACED}"),
    "leaves_by_system_exit": Cheat("E", "SystemExit(0)", "SystemExit"),
    "forged_pickle": Cheat("E", "a forged pickle", "not a tensor"),
    "edits_evaluator": Cheat("E", "edits harness files", READ_ONLY, needs_sandbox=True),
    "writes_results": Cheat("E", "edits results", READ_ONLY, needs_sandbox=True),
    "installs_a_package": Cheat(
        "E", "installs packages at run time", READ_ONLY, needs_sandbox=True
    ),
    "reaches_the_network": Cheat(
        "E", "reaches the network", "unreachable|not permitted|denied", needs_sandbox=True
    ),
    "leaves_a_daemon": Cheat(
        "E",
        "a daemon that rewrites results later",
        verdicts=("passed", "failed", "error"),
        unlike_naive=_ESCAPE,
        needs_sandbox=True,
    ),
    # F. Numerics.
    # Float16 has as many bits as TF32, which is the tighter class of the two.
    "float16_inside": Cheat("F", "fp16 inside a float32 problem", WRONG, precision="tf32"),
    "bfloat16_inside": Cheat("F", "bf16 inside a float32 problem", WRONG, precision="bf16"),
    "tf32_inside": Cheat("F", "TF32 inside a float32 problem", WRONG, precision="tf32"),
    # Each of the next five is within the bound of float32's sums, in every run.
    "weights_of_18_bits": Cheat(
        "F",
        "weights of 18 bits in sums of 192 terms",
        precision="tf32",
        notes=r"its weight is rounded to 18 bits \(to nearest\)",
        only_case="search-k3-s1-b1x64x34-to64",
    ),
    "inputs_of_13_bits": Cheat(
        "F",
        "inputs of 13 bits in sums of 1285 terms",
        precision="tf32",
        notes=r"its input is rounded to 13 bits \(to nearest\)",
        only_case="search-k5-s1-b1x257x9-to128",
    ),
    "operands_of_20_bits": Cheat(
        "F",
        "operands of 20 bits in sums of 384 terms",
        precision="tf32",
        notes=r"its input is rounded to 20 bits \(towards zero\)[^$]*"
        r"its weight is rounded to 20 bits \(towards zero\)",
        only_case="search-k3-s1-b1x128x34-to128",
    ),
    "inputs_rounded_by_chance": Cheat(
        "F",
        "inputs of 14 bits, right on average, in sums of 1285 terms",
        precision="tf32",
        notes=r"its input is rounded to 14 bits \(by chance\)",
        only_case="search-k5-s1-b2x257x64-to256",
    ),
    "two_channels_of_five": Cheat(
        "F",
        "inputs of 13 bits in two channels of five, in sums of 1285 terms",
        precision="tf32",
        notes=r"its input is rounded to 13 bits \(to nearest\)",
        only_case="search-k5-s1-b1x257x9-to128",
    ),
    # Of sums of 131,074 terms, the bound admits 0.8 %.
    "sampled_mean": Cheat(
        "F",
        "three of four elements stand for all in rows of 65,537",
        WRONG,
        unlike_naive="it has a reference of its own",
        only_case="batch_size=2-dim=65537",
        reference="mse_loss",
    ),
    "softmax_of_13_bits": Cheat(
        "F",
        "results of 13 bits within the bound of long rows",
        precision="tf32",
        notes="its results are rounded to 13 bits",
        unlike_naive="it has a reference of its own",
        cases=1,
        reference="softmax",
    ),
    "relu_with_a_gap": Cheat(
        "F",
        "wrong for numbers that are neither drawn often nor large",
        WRONG,
        unlike_naive="it has a reference of its own",
        cases=1,
        reference="relu",
    ),
    "fixed_point": Cheat("F", "errors under an absolute tolerance", WRONG),
    # Its error is within the bf16 bound, so it is ranked in that class.
    "scaled_within_rtol": Cheat("F", "the asymmetry of rtol", WRONG, precision="bf16"),
    "nan_everywhere": Cheat(
        "F",
        "NaN taken for a wildcard",
        f"{WRONG}|nan",
        unlike_naive="torch.allclose takes NaN for NaN only",
    ),
    "reads_out_of_bounds": Cheat("F", "out-of-bounds reads", "memcheck"),
    "unchecked_launch": Cheat(
        "F",
        "unchecked launch errors",
        "CUDA error|never written|invalid",
        unlike_naive="the simulated device recycles no memory; a GPU's allocator does",
    ),
    # H. Against this harness.
    "findings_stripped": Cheat(
        "H", "strips findings from the worker's headers", f"memcheck|{REPLACED}"
    ),
    "channel_from_gc": Cheat(
        "H",
        "answers over the worker's channel",
        f"{OWN_WORK}|{PROTOCOL}",
        unlike_naive=_ELSEWHERE,
    ),
    "descriptor_of_socket": Cheat(
        "H",
        "answers over the worker's descriptor",
        f"{OWN_WORK}|{PROTOCOL}|{REPLACED}",
        unlike_naive=_ELSEWHERE,
    ),
    "answers_ahead": Cheat(
        "H", "sends answers ahead of requests", PROTOCOL, unlike_naive=_ELSEWHERE
    ),
    "answer_lacks_keys": Cheat(
        "H", "an answer without keys", PROTOCOL, cases=1, unlike_naive=_ELSEWHERE
    ),
    "findings_of_wrong_type": Cheat(
        "H", "values of the wrong type", PROTOCOL, cases=1, unlike_naive=_ELSEWHERE
    ),
    "header_nested_deeply": Cheat(
        "H", "a header nested too deeply", PROTOCOL, cases=1, unlike_naive=_ELSEWHERE
    ),
    "shape_of_infinity": Cheat(
        "H", "a shape of infinity", PROTOCOL, cases=1, unlike_naive=_ELSEWHERE
    ),
    "event_without_name": Cheat(
        "H", "an event that lacks its name", PROTOCOL, cases=1, unlike_naive=_ELSEWHERE
    ),
    "record_forged": Cheat(
        "H",
        "forges the record of a kernel that it has not built",
        f"{OWN_WORK}|{PROTOCOL}",
        unlike_naive=_ELSEWHERE,
    ),
    "operator_without_cuda": Cheat(
        "H",
        "an operator with a kernel for the CPU alone, on the simulated device",
        "Could not run 'fast::pad'",
        unlike_naive=_REFUSED,
    ),
    "cpu_kernel_replaced": Cheat(
        "H",
        "replaces the CPU's kernel that the simulated device runs",
        "Expected a long tensor",
        unlike_naive=_REFUSED,
    ),
    "complex_products": Cheat("G", "products of complex numbers", OWN_WORK),
    "pinned_on_host": Cheat(
        "G", "work on the host in pinned memory", OWN_WORK, unlike_naive=_ELSEWHERE
    ),
    "managed_on_host": Cheat(
        "G", "work on the host in managed memory", OWN_WORK, unlike_naive=_ELSEWHERE
    ),
    "joined_by_scatter": Cheat("G", "products and sums by operators that move", OWN_WORK),
    "half_by_operators": Cheat("G", "four products of ten by torch's mul", OWN_WORK),
    "looked_up": Cheat(
        "G",
        "products of bytes out of a table",
        OWN_WORK,
        unlike_naive="slow where a processor runs torch's operators; written for a GPU's",
    ),
    "numbers_as_results": Cheat(
        "G",
        "operands as operators' results, the answer as an argument",
        OWN_WORK,
        unlike_naive=_ELSEWHERE,
    ),
    "told_by_errors": Cheat(
        "G", "operands in the words of errors", OWN_WORK, unlike_naive=_ELSEWHERE
    ),
    "printed_by_kernels": Cheat(
        "G", "operands printed by kernels", "nothing to be read", unlike_naive=_ELSEWHERE
    ),
    "weights_read_when_set": Cheat(
        "G", "weights read when they are set", OWN_WORK, unlike_naive=_ELSEWHERE
    ),
    "writes_after_the_call": Cheat(
        "G",
        "the answer written when the call is over",
        f"{OWN_WORK}|{WRONG}",
        unlike_naive=_ELSEWHERE,
    ),
    "answers_in_modules": Cheat(
        "G",
        "the answer compiled into device code",
        "built during a later call",
        unlike_naive=_ELSEWHERE,
    ),
    "memo_on_device": Cheat("B", "a memo that the device compares", OWN_WORK),
    "memo_beside_arithmetic": Cheat(
        "B", "a memo beside arithmetic of no use", "when the same inputs were given again"
    ),
    "ring_of_outputs": Cheat(
        "G",
        "outputs handed out again",
        "shares memory",
        unlike_naive="it looks at one output at a time",
    ),
    "claims_a_budget": Cheat(
        "H", "claims what only the device knows", PROTOCOL, unlike_naive=_ELSEWHERE
    ),
    "module_of_its_own": Cheat(
        "G",
        "device code that the harness has not compiled",
        "that the harness has not compiled",
        verdicts=("unsupported",),
        unlike_naive=_REFUSED,
    ),
    "counters_forged": Cheat("H", "forges its kernels' counters", f"{PROTOCOL}|{REPLACED}"),
    "timing_replaced": Cheat(
        "H",
        "replaces what the worker tells of its calls",
        REPLACED,
        on_gpu=REPLACED,
        unlike_naive=_ELSEWHERE,
    ),
    "code_replaced": Cheat(
        "H",
        "gives the worker's function other code",
        REPLACED,
        on_gpu=REPLACED,
        unlike_naive=_ELSEWHERE,
    ),
    "clock_patched": Cheat(
        "H",
        "gives the worker's own object another method",
        verdicts=("passed",),
        on_gpu="timed without a finding",
        unlike_naive=_ELSEWHERE,
    ),
    "writes_build_cache": Cheat(
        "H", "writes into the build cache", READ_ONLY, unlike_naive=_ELSEWHERE, needs_sandbox=True
    ),
    "reads_command_lines": Cheat(
        "H",
        "reads the judge's command line",
        "sees no process",
        unlike_naive=_ESCAPE,
        needs_sandbox=True,
    ),
    "signals_judge": Cheat(
        "H", "signals the judge", "sees no process", unlike_naive=_ESCAPE, needs_sandbox=True
    ),
}

HONEST: Mapping[str, str] = {
    "atomic_scatter": "zero-fill and atomicAdd",
    "autotuned": "autotuning by shape",
    "buffers": "register_buffer",
    "built_at_first_call": "compiled when sizes are known",
    "built_in_a_thread": "an extension built in a thread",
    "configured": "environment, dataclass, logging, prints",
    "container": "nn.ConvTranspose1d as a container of parameters",
    "custom_operator": "torch.library.custom_op",
    "double_sums": "more accurate than float32",
    "events_joined": "a side stream ordered with events",
    "layers_of_classes": "base classes, a mixin, a child module",
    "made_contiguous": "operands laid out and cast in PyTorch",
    "managed_table": "managed and constant memory, cooperative groups, fast math",
    "many_small_operators": "many operators and launches, with numbers of the host",
    "output_in_python": "output allocated in Python, several launches",
    "packed_weights": "weights packed once for each value",
    "pipeline": "three kernels and a workspace",
    "prepared_in_torch": "F.pad, flip, slices",
    "shared_memory": "dynamic shared memory",
    "source_in_files": "load() with files beside the submission",
    "streams_joined": "two streams, joined",
    "subclass_of_torch": "derives from nn.ConvTranspose1d",
    "suspicious_words": "words that text rules refuse",
    "templates": "templates, AT_DISPATCH, fast math",
    "try_finally": "try, except, finally",
    "two_extensions": "an extension split in two",
    "weights_measured": "a norm of the weights",
    "workspace_kept": "a workspace kept for each shape",
}
