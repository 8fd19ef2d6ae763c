"""Root file systems for `machines.py`: making them, and running a program that sees only one.

The commands that run in them, and the records of these, belong to `machines.py`.
"""
