"""Mutants of submissions, each with one small mistake: their kinds, drawing, and outcomes.

This package serves only `benchmarks/mutation.py`. It has kinds of mistakes in CUDA C++ and in
Python, the detection of mutants that compile to the same code, and the tables. Nothing here is
specific to one submission.
"""
