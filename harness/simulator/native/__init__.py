"""The simulator's C and C++ code.

It implements memory, arithmetic, race detection, the CUDA runtime and the `cuda` device of PyTorch.
library.py compiles the code, and bindings.py declares the C functions for Python.
"""
