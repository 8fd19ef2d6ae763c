"""Evaluation on other machines: the parcels that are sent, and the tasks that run there.

The folder has requests with the contents of their files, version checks, and the tasks of a Dask
worker. Only `connection.py`, `sender.py` and `tasks.py` import Dask. The engine is
harness/engines/dask.py.
"""
