"""PTX as text and as Python records: fat binaries, the parser, and the names of kernels.

What each instruction computes does not belong here but in instructions/.
"""
