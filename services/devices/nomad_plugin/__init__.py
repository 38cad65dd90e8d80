"""Nomad's protocol for device plugins, and what it announces."""
