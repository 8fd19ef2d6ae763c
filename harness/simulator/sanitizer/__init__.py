"""What the threads of a launch do wrong: races, barriers, waits that nothing ends.

Accesses out of bounds are noticed by native/ and told by execution/faults.py.
"""
