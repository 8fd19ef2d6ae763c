"""A sandbox in which untrusted code sees little and can harm nothing.

docs/trust.md states what it guarantees. This package does not depend on what runs in the sandbox:
workers and compilers both do.
"""
