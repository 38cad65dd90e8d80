"""The accelerators of this host, by vendor."""
