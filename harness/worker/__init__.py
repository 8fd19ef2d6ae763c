"""The trusted side of the process that runs a submission: start it, ask, check the answers.

The other side of the conversation is in inside/; what the sandbox allows is in sandbox/.
"""
