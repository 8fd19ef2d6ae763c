"""Root file systems for `machines.py`: how they are made, and how a program gets to see one alone.

What runs in them, and what is written of it, is the script's.
"""
