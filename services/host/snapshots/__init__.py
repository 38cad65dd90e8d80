"""Snapshots of the clusters' states: taken by a job, restored by the operator."""
