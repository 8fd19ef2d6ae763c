"""A CUDA device without a GPU."""
