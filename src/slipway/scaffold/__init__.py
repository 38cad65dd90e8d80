"""Writes the files of an environment as a person would: from answers to documents."""
