"""A node's membership of its clusters: how an instance joins, what it takes up, how it leaves."""
