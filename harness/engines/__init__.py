"""Engines, which run evaluations of submissions, and the reports that finished evaluations leave.

Each engine is one file. The code of an evaluation is in harness/evaluate.py.
"""
