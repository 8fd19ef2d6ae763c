"""The untrusted side of a worker: the code that imports the submission and runs beside it.

The submission can change anything in this process, so the harness relies on nothing here. The
supervisor, which sends requests and checks the answers, is worker/.
"""
