"""PTX as text and as records: fat binaries, the parser, the names of kernels.

What an instruction means is not here.
"""
