"""Obtains, checks and converts weights; the result is a folder that vLLM loads."""
