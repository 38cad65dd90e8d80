"""This machine: its requirements, its listeners, its memory, and code copied for its nodes."""
