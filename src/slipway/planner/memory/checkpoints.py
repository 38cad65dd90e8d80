"""What published checkpoints change in an architecture."""

from __future__ import annotations

from functools import cache

from slipway.config.catalog import Architecture


@cache
def as_published(architecture: Architecture, weights: str) -> Architecture:
    """The architecture with the MLPs of its published checkpoint in this scheme.

    Some are padded with zeros before they are quantized. Others' checkpoints of the same model may
    not be.
    """
    for checkpoint in architecture.checkpoints:
        if checkpoint.weights == weights and checkpoint.intermediate is not None:
            return architecture.model_copy(update={"intermediate": checkpoint.intermediate})
    return architecture
