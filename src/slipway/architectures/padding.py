"""MLPs that are padded before they are quantized, so that more devices can share their groups."""

from __future__ import annotations

from functools import cache

from slipway.config.catalog import Architecture


@cache
def padded(architecture: Architecture, weights: str) -> Architecture:
    """The architecture with the MLPs of its published checkpoint in this scheme, which others'
    checkpoints of the same model may lack."""
    for checkpoint in architecture.checkpoints:
        if checkpoint.weights == weights and checkpoint.intermediate is not None:
            return architecture.model_copy(update={"intermediate": checkpoint.intermediate})
    return architecture
