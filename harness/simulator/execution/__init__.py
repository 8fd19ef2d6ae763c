"""Runs prepared kernels: launches, the scheduler of threads, registers, code for basic blocks.

What is watched meanwhile is in sanitizer/ and counters/; CUDA's interface is in device/.
"""
