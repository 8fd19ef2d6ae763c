"""What an output means: the oracle, the bound, the verdict, and the name of the mistake.

It talks to a worker and never imports a submission; how reports look is in records/.
"""
