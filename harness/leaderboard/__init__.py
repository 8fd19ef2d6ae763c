"""The leaderboard: it ranks submissions by check reports and speed results.

The reports are from this machine; the speed results may be from any machine. Both are read from
files: no submission is run.
"""
