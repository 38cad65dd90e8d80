"""Memory of one device: weights, KV cache, the engine, and whether they fit."""
