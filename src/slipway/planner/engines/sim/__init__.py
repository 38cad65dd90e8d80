"""The simulated engine: services/engine_sim."""
