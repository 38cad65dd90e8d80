"""Models by the names under which weights are published."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.config.catalog import HOW_TO_ADD_A_MODEL, Architecture, Checkpoint
from slipway.config.errors import suggestion_or

CONFIG_ROUTE = "give the path of its config.json"


def find_published(name: str, known: Mapping[str, Architecture]) -> tuple[str, Architecture] | None:
    """(name in plans, architecture) of the model that is published under `name`, in any case. Its
    name in plans is its key in `known`; weights with facts of their own keep the published name.
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


def published_names(known: Mapping[str, Architecture]) -> list[str]:
    """Every name on the hub that `find_published` finds."""
    return [
        name
        for architecture in known.values()
        for names in (architecture.hub, *(each.hub for each in architecture.checkpoints))
        for name in names
    ]


def how_to_name(name: str, known: Mapping[str, Architecture]) -> str:
    """The fix for an unknown `name`: the nearest on the hub for one with an owner, else the nearest
    key of `known`. How to add a model is only shown where a key was meant."""
    if "/" in name:
        return suggestion_or(name, published_names(known), CONFIG_ROUTE)
    return suggestion_or(name, known, f"{CONFIG_ROUTE}, or {HOW_TO_ADD_A_MODEL}")


def _checkpoint(architecture: Architecture, wanted: str) -> Checkpoint | None:
    return next(
        (each for each in architecture.checkpoints if wanted in map(str.lower, each.hub)), None
    )


def as_published(architecture: Architecture, checkpoint: Checkpoint) -> Architecture:
    """The architecture with the facts of these weights in place of the original ones."""
    facts = {
        "published_weights": checkpoint.weights,
        "quantization_group": checkpoint.group,
        "unquantized": checkpoint.unquantized,
        "intermediate": checkpoint.intermediate or architecture.intermediate,
        "hub": checkpoint.hub,
        "packages": (),
    }
    return Architecture.model_validate({**dict(architecture), **facts})
