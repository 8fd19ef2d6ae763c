"""Run code of strangers where it sees little and can harm nothing; docs/trust.md says how far."""
