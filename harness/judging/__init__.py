"""What an output means: the oracle, the precision class, the verdict, and the mistake's name.

It talks to a worker and never imports a submission; how reports look is in records/.
"""
