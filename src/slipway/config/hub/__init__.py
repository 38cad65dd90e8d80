"""Architectures from the config.json of Hugging Face models."""
