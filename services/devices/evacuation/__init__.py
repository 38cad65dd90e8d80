"""Moves what runs on unhealthy devices, by Nomad's API."""
