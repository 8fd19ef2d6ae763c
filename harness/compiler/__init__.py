"""Inline CUDA source to a loadable extension: toolchain, flags, headers, cache of builds.

Who asks for a build, and loads it, is in worker/; nothing of a submission runs here.
"""
