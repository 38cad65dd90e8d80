"""Pulumi of one environment: its processes, plugins, state, locks and policies."""
