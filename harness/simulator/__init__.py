"""A simulated CUDA device, which runs the PTX of kernels and checks and counts what they do.

The packages from the bottom up are ptx, layout, hardware, instructions, actions, native, lowering,
sanitizer, counters and execution. Submissions, references and verdicts do not belong here.
"""
