"""Programs that wait until a pool's nodes accept work, or a model's replicas answer."""
