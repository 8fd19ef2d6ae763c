"""Checks of how the threads of a launch synchronise: races, wrong barriers, endless waits.

Accesses out of bounds do not belong in this folder: native/ detects them, and execution/faults.py
reports them.
"""
