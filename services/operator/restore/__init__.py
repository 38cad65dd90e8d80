"""Restores the clusters of servers that have lost their data."""
