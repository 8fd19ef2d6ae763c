"""Checks of the threads of a launch: races, wrong barriers, and waits that never end.

Accesses out of bounds do not belong here: native/ detects them and execution/faults.py reports
them.
"""
