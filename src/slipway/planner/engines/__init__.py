"""Engines: one folder each, looked up by the kind in a model file."""
