"""The untrusted side of a worker: the code that imports the submission and runs beside it.

The submission can change anything in this process, so the harness trusts no result of this code.
The supervisor, which sends requests and checks the answers, is in worker/.
"""
