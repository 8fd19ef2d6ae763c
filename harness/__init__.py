"""A correctness and regression test harness for CUDA kernel submissions."""

__version__ = "0.1.0"
