"""How fast submissions are on a GPU: measured beside their baselines, kept, and compared."""
