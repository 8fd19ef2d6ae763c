"""A simulated CUDA device, which runs the PTX of kernels, and checks and counts their instructions.

The packages from the bottom up are ptx, layout, hardware, instructions, actions, native, lowering,
sanitizer, counters and execution. Code about submissions, references or verdicts does not belong
here.
"""
