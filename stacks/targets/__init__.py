"""Targets choose one realisation of each capability; they contain none."""

from __future__ import annotations

from stacks.targets.dev import DEV

TARGETS = {"dev": DEV}
