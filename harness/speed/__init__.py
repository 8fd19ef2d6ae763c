"""How fast submissions are on a GPU: measured beside their baselines, kept, and compared.

Whether they are right is in judging/; the order of submissions is in leaderboard/.
"""
