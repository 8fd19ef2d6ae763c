"""What is to be checked: reference files, submissions as found, and the cases and values of each.

What is known of each kind of reference is in families/. No submission is run here; how an output is
judged is in judging/.
"""
