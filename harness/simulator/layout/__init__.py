"""Structures and numbers that Python and C share.

Each is declared once, in this package. The header that the C files include is generated from the
declarations, so that the two sides cannot differ. Code that uses the structures does not belong
here.
"""
