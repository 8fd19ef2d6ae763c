"""Execution of kernels on the simulated device: launches, scheduler, registers, compiled code.

Checks and counters that watch the execution belong in sanitizer/ and counters/. CUDA's interface
belongs in device/.
"""
