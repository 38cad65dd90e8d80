"""Shared by all programs here: documents, errors, folders, the agents' HTTP APIs, waiting."""
