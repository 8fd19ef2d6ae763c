"""Engines, which run evaluations: one file each. Also the reports that finished runs leave.

One evaluation is in harness/evaluate.py.
"""
