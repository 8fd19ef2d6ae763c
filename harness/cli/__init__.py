"""The command line: options, and a file for each command.

Nothing here is imported by other rooms. What a command does is in a module that is imported when
its arguments have been looked at, since torch alone takes seconds.
"""
