"""Speed of submissions on a GPU: measured beside their baselines, stored, and compared.

Correctness is judged in judging/. The order of submissions is in leaderboard/.
"""
