"""A real GPU through its driver: clocks, the record of its kernels, shares of its memory.

The simulated one is in simulator/; what two processes share of it is in worker/shared.py.
"""
