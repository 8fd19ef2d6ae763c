"""The mean of 1 - the cosine of two vectors."""

import torch
from torch import nn

batch_size = 512
dim = 1024


class Model(nn.Module):
    def forward(self, predictions, targets):
        cosines = nn.functional.cosine_similarity(predictions, targets, dim=1)
        return torch.mean(1 - cosines)


def get_inputs():
    return [torch.rand(batch_size, dim), torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
