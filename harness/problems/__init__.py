"""Data that specify a check: reference and submission files, cases, and their inputs and weights.

families/ has one module for each kind of reference. This package never runs a submission;
judging/ compares the outputs of submissions with those of the references.
"""
