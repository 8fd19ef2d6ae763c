"""Inline CUDA source to a loadable extension."""
