"""The supervisor: the trusted side of a worker, which is the process that runs a submission.

The supervisor starts the worker, sends it requests, and checks its answers. The untrusted side is
in inside/, and the sandbox in sandbox/.
"""
