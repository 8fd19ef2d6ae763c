"""Compilation of inline CUDA source to a loadable extension: toolchain, flags, headers, cache.

worker/ requests builds and loads them; no code of a submission runs in this package.
"""
