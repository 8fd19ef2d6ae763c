"""Never finishes its import."""

import torch.nn as nn

while True:
    pass


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()

    def forward(self, x):
        return x
