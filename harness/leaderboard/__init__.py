"""Submissions in their order, from what was checked here and what was measured anywhere.

Tables and the page are made of records alone; nothing is run.
"""
