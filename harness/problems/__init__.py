"""The specification of a check: reference files, submissions as found, cases and their values.

families/ contains the knowledge about each kind of reference. This package runs no submission;
judging/ judges their outputs.
"""
