"""The trusted device process: memory, modules, launches, torch's operators, and what they did.

A submission's process has addresses and handles, and nothing behind them; what executes kernels is
in simulator/, and the submission's side of the calls in worker/inside/.
"""
