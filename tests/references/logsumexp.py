"""The logarithm of the sum of exponentials of a linear layer's outputs."""

import torch
from torch import nn

batch_size = 128
features = 256
outputs = 96


class Model(nn.Module):
    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(self.linear(x), dim=1, keepdim=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, features)]


def get_init_inputs() -> list[int]:
    return [features, outputs]
