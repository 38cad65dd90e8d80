"""A fleet of simulated engines on a recorded load: what a change would do, before it is made."""
