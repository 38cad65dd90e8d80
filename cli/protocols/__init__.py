"""Asking a model a question over the gateway's protocols, and reading the streamed answer."""
