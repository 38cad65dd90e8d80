"""Why a program of this service ends other than by being done."""

from __future__ import annotations


class InputError(Exception):
    """The document or the environment is wrong; trying again changes nothing. Exit code 2."""


class RunError(Exception):
    """The program cannot go on, and another try may help. Exit code 1."""
