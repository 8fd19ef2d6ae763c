"""A correctness and regression test harness for CUDA kernel submissions."""
