"""Submissions in their order, from what was checked here and what was measured anywhere."""
