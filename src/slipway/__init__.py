"""Slipway: one `pulumi up` launches a whole LLM serving platform."""
