"""Why a program of this service fails."""

from __future__ import annotations


class InputError(Exception):
    """A mistake in the document or the environment; retrying does not help. Exit code 2."""


class RunError(Exception):
    """The program cannot go on, but a retry may help. Exit code 1."""
