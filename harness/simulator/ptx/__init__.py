"""PTX as text and as records: fat binaries, the parser, and the names of kernels.

The meaning of instructions belongs in instructions/.
"""
