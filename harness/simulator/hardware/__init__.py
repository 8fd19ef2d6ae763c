"""The simulated GPU: its properties and limits, its memory, warps and blocks, and its errors.

The packages instructions/ and actions/ define the effect of each PTX instruction.
"""
