"""Root file systems for `machines.py`: making them, and running a program inside one of them.

The commands that run in these file systems, and the definitions of the machines, belong to
`machines.py`.
"""
