"""The mean of a triplet loss with a margin."""

import torch
from torch import nn

batch_size = 512
dim = 1024


class Model(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.loss = nn.TripletMarginLoss(margin=margin)

    def forward(self, anchor, positive, negative):
        return self.loss(anchor, positive, negative)


def get_inputs():
    return [torch.rand(batch_size, dim) for _ in range(3)]


def get_init_inputs():
    return [1.0]
