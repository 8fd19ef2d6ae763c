"""General helpers: errors, files, processes, JSON, and escaping of untrusted text.

No module in this package depends on submissions, kernels or torch.
"""
