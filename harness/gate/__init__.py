"""The gate fails if a new version of a submission (head) is worse than the old version (base).

Worse means wrong, less precise or slower. This package compares; harness/evaluate.py and
harness/speed make the reports and times that are compared.
"""
