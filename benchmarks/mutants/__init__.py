"""Submissions with one small mistake each: which can be made, drawn ones, and what became of them.

What belongs here serves `benchmarks/mutation.py` alone: kinds of mistakes in CUDA C++ and in
Python, what a compiler makes the same code of, and the table. Nothing here is about one submission.
"""
