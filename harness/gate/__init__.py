"""The gate: new versions of submissions must be as right and as fast as the old ones.

This package has the comparison alone. The evaluations are those of every other command.
"""
