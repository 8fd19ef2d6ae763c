"""Digests of tensors, which show whether a tensor's bits have changed."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

# Larger tensors get a cheaper digest: the sum of all words and SHA-256 of every 997th byte. It
# needs no transfer of gigabytes to the CPU.
_WHOLE_BYTES = 1 << 24
_STEP = 997


def digest(tensor: Tensor) -> str:
    """Return a hash, as text, of a tensor's bits; a copy on another device has the same hash."""
    values = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    if values.numel() <= _WHOLE_BYTES:
        return hashlib.sha256(values.cpu().numpy().data).hexdigest()
    words = values[: values.numel() // 8 * 8].view(torch.int64)
    some = hashlib.sha256(values[::_STEP].contiguous().cpu().numpy().data)
    return f"{some.hexdigest()} {int(words.sum())}"
