"""The untrusted side of a worker: the code that imports the submission and runs beside it.

The submission can change anything here, so that nothing here can be relied on. The trusted side,
which asks and checks the answers, is worker/.
"""
