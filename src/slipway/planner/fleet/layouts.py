"""Layouts to try, and how to name them."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.plan.figures import Layout


def tensor_layouts(devices_per_node: int) -> Iterator[Layout]:
    """Tensor parallelism over 1, 2, 4... devices of one node."""
    tensor = 1
    while tensor <= devices_per_node:
        yield Layout(tensor=tensor)
        tensor *= 2


def describe_layout(layout: Layout) -> str:
    """The layout in vLLM's abbreviations: "TP2 PP2"; sizes of 1 are left out."""
    sizes = {"TP": layout.tensor, "PP": layout.pipeline, "EP": layout.expert, "DP": layout.data}
    return " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "TP1"
