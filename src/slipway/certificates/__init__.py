"""Certificates that users bring for the platform, read from PEM files, and refused if unfit."""
