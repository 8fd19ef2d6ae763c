"""Compilation of inline CUDA source to a loadable extension: compilers, flags, headers, cache.

The package worker/ requests builds and loads them. No code of a submission runs in this package.
"""
