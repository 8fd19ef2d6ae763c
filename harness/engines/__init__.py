"""Where evaluations run: in this process or in several, and what is kept of those that ended.

What one evaluation does is in harness/evaluate.py.
"""
