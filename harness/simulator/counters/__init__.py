"""What kernels did, counted exactly: instructions, bytes, sectors, bank conflicts, divergence.

How they are shown is in harness/profile/.
"""
