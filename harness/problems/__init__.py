"""What is to be checked: reference files, submissions as found, and the cases and values of each.

Nothing is run here; how an output is judged is in judging/.
"""
