"""The command line: its options, and for each command the arguments and the execution.

Each command has two modules: one defines its arguments, and one executes it. The latter is imported
only after the arguments are checked, because importing torch takes seconds. No other package
imports this one, except the pytest plugin, which shares some of the options.
"""
