"""Run code of strangers where it sees little and can harm nothing; docs/trust.md says how far.

What runs in it is not known here: workers and compilers both do.
"""
