"""Pulumi for one environment: processes, plugins, state, locks and policies."""
