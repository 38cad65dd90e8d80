"""A replica of several members, one process each, that pass every step round a ring."""
