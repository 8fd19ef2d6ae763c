"""A naive evaluator like many published ones: `python naive.py REFERENCE SUBMISSION`.

It imports both files into its own process. It compares outputs for one shape and two seeds, within
a tolerance. It times five calls with the host's clock, and prints the result as a line of JSON. The
tests run it to find out which cheats fool it.
"""

import importlib.util
import json
import statistics
import sys
import time
from typing import Any

import torch


def load(name: str, path: str) -> Any:
    """Import the Python file at `path` as the module `name`."""
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(expected: Any, actual: Any) -> bool:
    """Return whether a submission's outputs are close to the reference's, within 1e-2."""
    pairs = zip(*(v if isinstance(v, list) else [v] for v in (expected, actual)), strict=False)
    return all(torch.allclose(a, e, atol=1e-2, rtol=1e-2, equal_nan=True) for e, a in pairs)


def check_correctness(reference: Any, model: Any, submission: Any) -> tuple[bool, list[Any]]:
    """Return whether outputs are close for two seeds, and the inputs drawn with the second seed."""
    correct = True
    for seed in (0, 42):
        torch.manual_seed(seed)
        inputs = [x.cuda() for x in reference.get_inputs()]
        expected = model(*inputs)
        correct = correct and check(expected, submission(*inputs))
    return correct, inputs


def seconds(model: Any, inputs: list[Any]) -> float:
    """Return the median time, in seconds, of five calls of a model."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        model(*inputs)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@torch.no_grad()
def evaluate(reference_path: str, submission_path: str) -> None:
    """Check and time a submission; print `correct`, `seconds` and `speedup` as a line of JSON."""
    reference, submission = load("reference", reference_path), load("submission", submission_path)
    torch.manual_seed(0)
    model = reference.Model(*reference.get_init_inputs()).cuda()
    torch.manual_seed(0)
    new = submission.ModelNew(*reference.get_init_inputs()).cuda()
    correct, inputs = check_correctness(reference, model, new)
    old_seconds, new_seconds = seconds(model, inputs), seconds(new, inputs)
    speedup = old_seconds / new_seconds
    print(json.dumps({"correct": correct, "seconds": new_seconds, "speedup": speedup}), flush=True)


if __name__ == "__main__":
    evaluate(*sys.argv[1:])
