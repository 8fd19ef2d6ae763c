"""The command line: options, and for each command its arguments and what it does.

What a command does is in a module that is imported when its arguments have been looked at, since
torch alone takes seconds. Only the pytest plugin imports from here, what both have of options.
"""
