"""Speed of submissions on a GPU: measurement together with baselines, storage, and statistics.

Correctness is judged in judging/. Submissions are ranked in leaderboard/.
"""
