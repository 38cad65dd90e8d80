"""Programs of others that are clients of the gateway."""
