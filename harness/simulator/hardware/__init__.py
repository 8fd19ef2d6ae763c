"""The simulated GPU: its properties and limits, its memory, warps and blocks, and its errors.

The effects of instructions are in instructions/ and actions/.
"""
