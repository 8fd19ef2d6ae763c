"""HTML pages that show what is wrong with a submission, where, and how fast it is.

A script in the page draws them from stored reports and speeds alone. No submission is run. The
leaderboard's page has the same style and charts (`shell.py`).
"""
