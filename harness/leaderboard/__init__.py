"""The leaderboard: submissions ranked from check reports of this machine and speeds of any machine.

Tables and the page are made from stored reports and speed results alone. No submission is run.
"""
