"""Exact counters of simulated kernels: instructions, bytes, sectors, bank conflicts, divergence.

harness/profile/ displays the counters.
"""
