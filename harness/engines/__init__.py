"""Where evaluations run, a file for each engine, and what is kept of those that ended.

What one evaluation does is in harness/evaluate.py.
"""
