"""The door for pytest: options, collected submissions, and the tests that each of them gets.

Nothing imports it but pytest; what a test asks for is computed in the other rooms.
"""
