"""Judgement of outputs: the oracle, precision classes, verdicts and diagnoses.

This package talks to a worker and never imports a submission. The format of reports is in records/.
"""
