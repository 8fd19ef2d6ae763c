"""Evaluation on other machines: requests packed for sending, and the tasks that run there.

The folder has three parts: requests packed with the contents of their files, checks that machines
have equal versions, and the tasks of a Dask worker. Only `connection.py`, `sender.py` and
`tasks.py` import Dask. The engine is harness/engines/dask.py.
"""
