"""An elu: alpha * (exp(x) - 1) for negative elements; other elements stay as they are."""

import torch
from torch import nn

batch_size = 64
dim = 4096


class Model(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        return nn.functional.elu(x, alpha=self.alpha)


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return [1.0]
