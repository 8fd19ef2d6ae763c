"""Engines, which run evaluations of submissions, and the reports that finished evaluations leave.

Each engine is one file. harness/evaluate.py makes one evaluation.
"""
