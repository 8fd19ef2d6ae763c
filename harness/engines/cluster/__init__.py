"""What evaluations on other machines need: what is sent, and what runs there.

Requests with their contents, versions that must agree, and the tasks of a Dask worker. The engine
that sends them is `harness/engines/dask.py`; only `tasks.py` and the engine import Dask.
"""
