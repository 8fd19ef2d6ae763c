"""Submissions with one small mistake each: kinds of mistakes, a draw of them, and their outcomes.

This package serves `benchmarks/mutation.py` alone. It has kinds of mistakes in CUDA C++ and in
Python, the detection of mutants that compile to the same code, and the tables. Nothing here is
specific to one submission.
"""
