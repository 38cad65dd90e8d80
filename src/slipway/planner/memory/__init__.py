"""What one device holds: weights, KV cache, the engine, and whether it fits."""
