"""An LSTM of two layers, whose initial state and memory are inputs."""

import torch
from torch import Tensor, nn

batch_size = 6
length = 40
width = 24
hidden = 20


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.LSTM(width, hidden, num_layers=2, batch_first=True)

    def forward(self, x: Tensor, state: Tensor, memory: Tensor) -> Tensor:
        output: Tensor = self.layers(x, (state, memory))[0]
        return output


def get_inputs() -> list[Tensor]:
    before = (2, batch_size, hidden)
    return [torch.rand(batch_size, length, width), torch.rand(before), torch.rand(before)]


def get_init_inputs() -> list[int]:
    return [width, hidden]
