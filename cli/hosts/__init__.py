"""The hosts of an environment: who they are, what each has, and what the clusters say of it."""
