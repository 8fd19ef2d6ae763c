"""The leaderboard: submissions ranked from the checks of this machine and speeds of any machine.

Tables and the page are made from records alone. Nothing is run.
"""
