"""Scaled dot product attention."""

import torch
from torch import nn

batch_size = 8
heads = 4
length = 256
width = 64


class Model(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v)


def get_inputs():
    shape = (batch_size, heads, length, width)
    return [torch.rand(shape), torch.rand(shape), torch.rand(shape)]


def get_init_inputs():
    return []
