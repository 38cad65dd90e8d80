"""Models by the names under which weights are published."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.config.catalog import Architecture, Checkpoint


def find_published(name: str, known: Mapping[str, Architecture]) -> tuple[str, Architecture] | None:
    """What the model that is published under `name`, in any case, is called, and its architecture.

    That is its key in `known`; weights with facts of their own keep their name.
    """
    wanted = name.lower()
    for key, architecture in known.items():
        if wanted in map(str.lower, (*architecture.packages, *architecture.hub)):
            return key, architecture
        checkpoint = _checkpoint(architecture, wanted)
        if checkpoint is not None:
            spelled = next(each for each in checkpoint.hub if each.lower() == wanted)
            return spelled, as_published(architecture, checkpoint)
    return None


def _checkpoint(architecture: Architecture, wanted: str) -> Checkpoint | None:
    return next(
        (each for each in architecture.checkpoints if wanted in map(str.lower, each.hub)), None
    )


def as_published(architecture: Architecture, checkpoint: Checkpoint) -> Architecture:
    """The architecture as these weights have it, whose own are other ones."""
    facts = {
        "published_weights": checkpoint.weights,
        "quantization_group": checkpoint.group,
        "unquantized": checkpoint.unquantized,
        "intermediate": checkpoint.intermediate or architecture.intermediate,
        "hub": checkpoint.hub,
        "packages": (),
    }
    return architecture.model_copy(update=facts)
