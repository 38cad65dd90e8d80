"""The fabric of a pool: what the plan says of it, and what members of groups are told."""
