"""What a submission's kernels do, counted on the simulator, and as tables for people.

The counters themselves are in simulator/counters/; measured times are in speed/.
"""
