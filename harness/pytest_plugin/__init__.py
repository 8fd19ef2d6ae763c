"""The pytest plugin: its options, the collected submissions, and the tests of each of them.

Nothing but pytest imports it. The results that a test needs are computed in the other rooms.
"""
