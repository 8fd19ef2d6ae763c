"""The GPU that is simulated: its figures and limits, its memory, warps and blocks, and its errors.

What instructions do to it is in instructions/ and actions/.
"""
