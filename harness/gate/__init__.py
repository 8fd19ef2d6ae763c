"""New versions of submissions against older ones: right where those were, and as fast."""
