"""Load on a model through the gateway, and what its clients saw."""
