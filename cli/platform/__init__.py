"""Clients for the parts of a running platform."""
