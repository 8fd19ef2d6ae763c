"""Judgement of a submission's outputs: oracle, precision classes, verdicts and diagnoses.

This package talks to a worker, the process that runs a submission, and never imports a submission
itself. The format of reports is in records/.
"""
