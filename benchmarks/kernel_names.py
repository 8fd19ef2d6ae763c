"""Record the names of the kernels that torch and its libraries launch, for tests/kernel_names.json.

    python benchmarks/kernel_names.py > tests/kernel_names.json

Needs a GPU. `library` are kernels that sum products, `moves` those of operators that only move
numbers, make them up or add them, `forms` those of operators that form products or sums.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from harness.gpu.recording import Recording

Call = Callable[[], object]


def main() -> None:
    """Record all, without TF32 and with it."""
    found: dict[str, dict[str, str]] = {}
    for allowed in (False, True):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = allowed
        for kind, calls in _calls().items():
            for what, call in calls.items():
                # What is set up at a first call is nobody's work.
                call()
                with Recording() as recording:
                    call()
                for launched in recording.launched:
                    found.setdefault(kind, {}).setdefault(launched.name, what)
    json.dump(found, sys.stdout, indent=1)


def _calls() -> Mapping[str, Mapping[str, Call]]:
    x, y = _random(4, 32, 4096), _random(4, 64, 4094)
    weight, long_weight, depthwise = _random(32, 64, 3), _random(32, 64, 5), _random(32, 1, 3)
    turned = weight.transpose(0, 1).contiguous()
    a, v = _random(512, 512), _random(512)
    columns = _random(4, 96, 4094)
    heads = _random(1, 4, 128, 64).half()
    two = torch.tensor([1, 2], device="cuda")
    places = torch.zeros(4, 1, 9, dtype=torch.long, device="cuda")
    transposed, aten = functional.conv_transpose1d, torch.ops.aten
    compiled = torch.compile(lambda x: transposed(x, weight) * 2)
    return {
        "library": {
            "conv_transpose1d": lambda: transposed(x, weight),
            "conv_transpose1d, stride and dilation 2": lambda: transposed(
                x, weight, stride=2, dilation=2
            ),
            "conv_transpose1d, dilation 3": lambda: transposed(x, long_weight, dilation=3),
            "conv_transpose1d, depthwise": lambda: transposed(x, depthwise, groups=32),
            "conv_transpose1d, half": lambda: transposed(x.half(), weight.half()),
            "conv_transpose1d, bfloat16": lambda: transposed(x.bfloat16(), weight.bfloat16()),
            "conv_transpose1d, double": lambda: transposed(x.double(), weight.double()),
            "conv1d": lambda: functional.conv1d(x, turned),
            "convolution_backward": lambda: aten.convolution_backward(
                y, x, turned, None, [1], [0], [1], False, [0], 1, [True, True, False]
            ),
            "mm": lambda: a @ a,
            "mm, half": lambda: a.half() @ a.half(),
            "mm, double": lambda: a.double() @ a.double(),
            "mm, small": lambda: a[:8, :8] @ a[:8, :8],
            "mv": lambda: a @ v,
            "dot": lambda: torch.dot(v, v),
            "bmm": lambda: torch.bmm(a.view(8, 64, 512), a.view(8, 512, 64)),
            "einsum": lambda: torch.einsum("bit,iok->bokt", x, weight),
            "linear": lambda: functional.linear(a, a, v),
            "fft": lambda: torch.fft.irfft(torch.fft.rfft(x, 5000)),
            "attention": lambda: functional.scaled_dot_product_attention(heads, heads, heads),
            "torch.compile": lambda: compiled(x),
        },
        "moves": {
            "contiguous": lambda: x.transpose(1, 2).contiguous(),
            "cat": lambda: torch.cat([x, x]),
            "pad": lambda: functional.pad(x, (3, 3)),
            "zeros": lambda: torch.zeros(100, device="cuda"),
            "half": lambda: x.half(),
            "int": lambda: x.int(),
            "add": lambda: x + 1,
            "add tensors": lambda: x + x,
            "index": lambda: x[:, two],
            "index_select": lambda: torch.index_select(x, 1, two),
            "index_add": lambda: x.index_add(1, two, x[:, :2]),
            "flip": lambda: x.flip(1),
            "clone": lambda: x.clone(),
            "arange": lambda: torch.arange(9, device="cuda"),
            "where": lambda: torch.where(x > 1, x, x),
            "roll": lambda: torch.roll(x, 1),
            "repeat": lambda: x.repeat(2, 1, 1),
            "gather": lambda: torch.gather(x, 1, places),
            "scatter": lambda: x.scatter(1, places, x),
            "fill": lambda: torch.full((9,), 1.5, device="cuda"),
            "rand": lambda: torch.rand(9, device="cuda"),
            "masked_fill": lambda: x.masked_fill(x > 1, 0),
            "triu": lambda: a.triu(),
            "_sleep": lambda: torch.cuda._sleep(100),  # type: ignore[no-untyped-call]
        },
        "forms": {
            "mul": lambda: x * 2.5,
            "mul tensors": lambda: x * x,
            "div": lambda: x / 3,
            "addcmul": lambda: torch.addcmul(x, x, x),
            "sum": lambda: x.sum(1),
            "mean": lambda: x.mean(),
            "norm": lambda: x.norm(),
            "unfold": lambda: functional.unfold(x[:, :, None], (1, 3)),
            "fold": lambda: functional.fold(columns, (1, 4096), (1, 3)),
        },
    }


def _random(*shape: int) -> Tensor:
    return torch.rand(*shape, device="cuda")


if __name__ == "__main__":
    main()
