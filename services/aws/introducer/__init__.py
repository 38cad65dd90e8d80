"""Learns from AWS who a new node is, and has Nomad sign its introduction."""
