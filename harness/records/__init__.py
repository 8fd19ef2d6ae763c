"""Frozen records of an evaluation's results, with one JSON form and a text form for people.

The results themselves are computed in judging/ and speed/.
"""
