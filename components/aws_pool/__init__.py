"""Elastic pools on AWS: nodes that nobody knows before they join."""
