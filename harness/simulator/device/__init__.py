"""The simulated `cuda` device as processes meet it: torch.cuda, runtime's callbacks, the record.

It hands kernels to execution/; it decides nothing about them.
"""
