"""Structures and numbers that the simulator's Python and C code share.

Each structure and number is declared once, in Python, in this package. The header that the C files
include is generated from these declarations, so that Python and C cannot differ. Code that uses the
structures does not belong in this package.
"""
