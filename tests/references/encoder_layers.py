"""Five layers of a transformer's encoder: attention, then two linear maps, each after a norm."""

import torch
from torch import nn

batch_size = 4
length = 16
width = 32
heads = 4
layers = 5


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.joint = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.second_norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def attended(self, x):
        parts = self.joint(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(*parts)
        return self.out(y.transpose(1, 2).flatten(2))

    def mixed(self, x):
        return self.narrow(nn.functional.gelu(self.wide(x)))

    def forward(self, x):
        x = x + self.attended(self.norm(x))
        return x + self.mixed(self.second_norm(x))


class Model(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def get_inputs():
    return [torch.rand(batch_size, length, width)]


def get_init_inputs():
    return [width, heads, layers]
