"""General helpers for any program: errors, files, processes, and escaping of untrusted text.

Nothing here depends on submissions, kernels or torch.
"""
