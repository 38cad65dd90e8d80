"""Health checks that Nomad runs for its jobs."""
