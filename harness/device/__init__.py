"""The trusted device process, which runs a submission's kernels and operators and records them.

The submission's own process, the worker, holds only addresses and handles. The code that executes
kernels is in simulator/ and gpu/. The code that runs in the worker is in worker/inside/.
"""
