"""Nomad's, Consul's and Prometheus's own pages, read only."""
