"""The simulator's C and C++: memory, arithmetic, races, the CUDA runtime, PyTorch's device.

Two Python files compile it and describe its functions; no other module calls C.
"""
