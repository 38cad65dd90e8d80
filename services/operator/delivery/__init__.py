"""What a host needs from the operator's cache, and how it gets there."""
