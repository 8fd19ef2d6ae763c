"""The trusted device process: memory, modules, launches, torch's operators, and their record.

A submission's process holds only addresses and handles. The code that executes kernels is in
simulator/ and gpu/, and the submission's side of the calls in worker/inside/.
"""
