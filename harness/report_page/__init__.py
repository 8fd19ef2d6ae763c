"""HTML pages that show what is wrong with a submission, where, and how fast it is.

A script in each page draws its content from stored reports and speed results. No submission is run
to make a page. The leaderboard's page has the same style and charts (`shell.py`).
"""
