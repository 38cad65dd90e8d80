"""Architectures of models: from a config.json or by a name on the hub, and their parameters."""
