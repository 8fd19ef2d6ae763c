"""Submissions that the tests check through the harness are not collected as this suite's own."""

collect_ignore = ["defects", "hostile"]
