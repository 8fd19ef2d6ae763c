"""What any program would need of its system: errors, files, processes, text made harmless.

Nothing here knows of submissions, kernels or torch.
"""
