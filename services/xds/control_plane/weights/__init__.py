"""Weights of replicas, by what their engines report."""
