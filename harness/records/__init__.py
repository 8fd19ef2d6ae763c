"""What is known of a submission, as frozen records with one JSON form, and as text for people.

How it came to be known is in judging/ and speed/.
"""
