"""New versions of submissions against older ones: right where those were, and as fast.

Only the comparison is here; the evaluations are those of every other command.
"""
