"""Run a submission where it can do no harm: supervisor here, the submission over there."""
