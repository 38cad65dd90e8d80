"""The check of a fabric before work: readings, thresholds, verdicts."""
