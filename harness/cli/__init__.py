"""The command line: the options, and for each command its arguments and its work.

Each command has two modules: one defines its arguments, and the other does its work. The second is
imported only after the arguments are checked, because importing torch takes seconds. No other room
imports from here, except the pytest plugin, which shares some of the options.
"""
