"""What Python and C both look at: structures in memory, and the numbers of what is in them.

Each is declared once, here; the header that the C files include is written from the declarations.
What the structures are used for is not here.
"""
