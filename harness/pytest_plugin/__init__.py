"""The pytest plugin: its options, the collection of submissions, and the tests of each submission.

Only pytest imports this package. Other packages compute the results that its tests need.
"""
