"""The trusted side of the process that runs a submission: start it, ask it, check its answers.

The untrusted side is in inside/, and the sandbox in sandbox/.
"""
