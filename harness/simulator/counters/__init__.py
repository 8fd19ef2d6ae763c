"""Exact counters of kernels: instructions, bytes, sectors, bank conflicts and divergence.

harness/profile/ displays them.
"""
