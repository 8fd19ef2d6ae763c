"""A step of a recurrent network, whose hidden state is neither a parameter nor a buffer."""

import torch
from torch import nn

batch_size = 32
features = 48
hidden = 64


class Model(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.state = torch.zeros(batch_size, hidden)
        self.cell = nn.Linear(features + hidden, hidden)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        self.state.copy_(state)
        self.state = torch.tanh(self.cell(torch.cat((x, self.state), dim=1)))
        return self.state


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, features), torch.rand(batch_size, hidden)]


def get_init_inputs() -> list[int]:
    return [features, hidden]
