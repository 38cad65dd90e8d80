"""Clients of the clusters, and of what runs on them."""
