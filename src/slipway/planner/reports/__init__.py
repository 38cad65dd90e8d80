"""Reports on a plan: its arithmetic, its changes, its facts, and comparisons with measurements."""
