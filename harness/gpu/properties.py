"""Properties of a GPU, such as its number of multiprocessors, as torch reports them."""

from __future__ import annotations

from dataclasses import fields

import torch

from harness.simulator.hardware.properties import DeviceProperties


def properties_of_gpu() -> DeviceProperties:
    """Return the device properties of the GPU that this process computes on."""
    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    names = (each.name for each in fields(DeviceProperties))
    return DeviceProperties(**{n: getattr(found, n) for n in names if hasattr(found, n)})
