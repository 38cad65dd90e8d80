"""A fleet of simulated engines under a recorded load: what a change would do, before it is made."""
