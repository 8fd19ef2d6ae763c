"""The simulator's C and C++ code: memory, arithmetic, races, the CUDA runtime, PyTorch's device.

library.py compiles the code, and bindings.py declares its functions.
"""
