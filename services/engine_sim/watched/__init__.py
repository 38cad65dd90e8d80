"""The simulated engine as the child of a process that watches its steps."""
