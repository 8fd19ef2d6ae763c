"""Profiles: what a submission's kernels do, counted on the simulator, and tables of the counts.

The code that counts is in simulator/counters/. The code that measures times is in speed/.
"""
