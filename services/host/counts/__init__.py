"""The counts of jobs whose replicas are several allocations each."""
