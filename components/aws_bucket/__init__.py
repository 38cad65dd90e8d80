"""The bucket from which elastic nodes start."""
