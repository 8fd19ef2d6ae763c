"""Profiles: what a submission's kernels do, counted on the simulator, and tables of the counts.

The counters themselves are in simulator/counters/. Measured times are in speed/.
"""
