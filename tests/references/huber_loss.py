"""The mean of errors, squared where they are small."""

import torch
from torch import nn

batch_size = 2048
dim = 1024


class Model(nn.Module):
    def forward(self, predictions, targets):
        return nn.functional.smooth_l1_loss(predictions, targets)


def get_inputs():
    return [torch.rand(batch_size, dim), torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
