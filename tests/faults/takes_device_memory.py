"""Asks for more memory than any device has."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros(1 << 44, device=x.device)
