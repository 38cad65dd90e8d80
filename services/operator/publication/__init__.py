"""Artifacts of the operator's cache in a bucket, from which nodes fetch them when they start."""
