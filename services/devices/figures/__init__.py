"""The figures of accelerators, for Prometheus."""
