"""Anthropic's Messages API, as vLLM has it."""
