"""Fetches, verifies and converts weights into a folder that vLLM loads."""
