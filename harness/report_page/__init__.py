"""Pages that show what is wrong with a submission, where, and how fast it is.

They are drawn from records alone, by one script in the page. Nothing is run. The leaderboard's page
has the same style and charts (`shell.py`).
"""
