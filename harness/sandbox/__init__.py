"""A sandbox for untrusted code, which hides files, network and processes of the machine.

docs/trust.md states what the sandbox guarantees. Both workers and compilers run in sandboxes; this
package does not depend on either.
"""
