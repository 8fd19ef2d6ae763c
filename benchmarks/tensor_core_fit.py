"""Compare the simulator's model of tensor cores with results of a GPU.

    PYTHONPATH=. python benchmarks/tensor_core_fit.py measured.json

The file has the output of tensor_core_probe.cu on a GPU. For each type and kind of operands, the
program prints how many of the measured sums equal those of the model bit for bit. The model is in
harness/simulator/actions/tensor_core.py. If not all sums are equal, the program also tries other
parameters of the model, and prints those for which most sums are equal.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import harness.simulator.native
from harness.simulator.actions.mma import lines, registers_of, sums
from harness.simulator.actions.tensor_core import HOPPER, Model, multiply_add, multiply_add_bytes

_SUM_TYPES = {"f16": np.float16, "f32": np.float32}


def _library() -> ctypes.CDLL:
    source = Path(harness.simulator.native.__file__).with_name("tensor.c")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "tensor.so"
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", str(source), "-lm", "-o", str(target)],
            check=True,
        )
        return ctypes.CDLL(str(target))


def _registers(cases: list[dict[str, Any]], name: str) -> tuple[Any, ...]:
    """Return register `name` of the cases as one array of words for each register.

    Each array has the threads of the first case, then those of the next, and so on.
    """
    words = np.array([case[name] for case in cases], np.uint32)
    return tuple(words.transpose(1, 0, 2).reshape(words.shape[1], -1))


def _agreement(
    library: ctypes.CDLL, model: Model, form: str, cases: list[dict[str, Any]]
) -> tuple[int, int]:
    """Return how many sums the model predicts bit for bit, and how many sums were measured."""
    kind, sum_kind = form.removesuffix("_half"), "f16" if form.endswith("_half") else "f32"
    a = lines(_registers(cases, "a"), kind, 2)
    b = lines(_registers(cases, "b"), kind, 1).swapaxes(1, 2)
    c = sums(_registers(cases, "c"), sum_kind, 16)
    if kind == "e4m3":
        total = multiply_add_bytes(library, a, b, c)
    else:
        total = multiply_add(library, model, a, b, c)
    result = registers_of(total, sum_kind)
    got, wanted = np.stack(result), np.stack(_registers(cases, "d"))
    width = np.uint16 if sum_kind == "f16" else np.uint32
    equal = got.view(width) == wanted.view(width)
    return int(equal.sum()), equal.size


def main() -> None:
    """Print the comparison for the file of measurements on the command line."""
    measured = json.loads(Path(sys.argv[1]).read_text())
    library = _library()
    print(f"{measured['device']}, compute capability {measured['capability']}")
    cases: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for case in measured["measured"]:
        cases.setdefault((case["form"], case["kind"]), []).append(case)
    with np.errstate(all="ignore"):
        for (form, kind), some in cases.items():
            model = HOPPER[form.removesuffix("_half")]
            equal, total = _agreement(library, model, form, some)
            print(f"{form:9} operands {kind}: {equal} of {total} sums as the model predicts")
            if equal == total:
                continue
            variants = [
                replace(model, terms=terms, extra_bits=extra)
                for terms, extra in itertools.product((4, 8, 16, 32), (-10, -1, 0, 1, 2, 3, 4))
            ]
            best = max(variants, key=lambda v: _agreement(library, v, form, some)[0])
            print(f"    the best: {best}, {_agreement(library, best, form, some)[0]}")


if __name__ == "__main__":
    main()
