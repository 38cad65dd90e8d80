"""What is said about a plan: its arithmetic, changes, facts, and what was measured instead."""
