"""A CUDA device without a GPU: the kernels' own PTX is run, watched and counted.

Rooms from the bottom up: ptx, layout, hardware, instructions, actions, native, lowering, sanitizer,
counters, execution, device. Which submission it is, and what is right, is not known here.
"""
