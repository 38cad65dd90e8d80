"""Snapshots of Consul's and Nomad's states: shown, taken, and restored."""
