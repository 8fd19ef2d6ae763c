"""The mean of a hinge loss with margin 1."""

import torch
from torch import nn

batch_size = 2048
dim = 1024


class Model(nn.Module):
    def forward(self, predictions, targets):
        return torch.mean(torch.clamp(1 - predictions * targets, min=0))


def get_inputs():
    targets = torch.randint(0, 2, (batch_size, 1)).float() * 2 - 1
    return [torch.rand(batch_size, dim), targets]


def get_init_inputs():
    return []
