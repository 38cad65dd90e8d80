"""Grafana dashboards of what Prometheus scrapes."""
