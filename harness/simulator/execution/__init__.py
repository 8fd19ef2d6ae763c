"""Execution of prepared kernels: launches, scheduler, registers and compiled basic blocks.

Checks and counters that watch the execution belong in sanitizer/ and counters/. CUDA's interface
belongs in device/.
"""
