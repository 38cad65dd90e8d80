"""Logical names of resources. They come from configuration keys, never from a position in a list: a
name is part of a resource's identity, and changing it replaces the resource."""

from __future__ import annotations


def pool(name: str) -> str:
    return f"pool-{name}"


def model(name: str) -> str:
    return f"model-{name}"


def node(name: str) -> str:
    return f"node-{name}"


def admission(node: str) -> str:
    return f"admission-{node}"


def agent(system: str, host: str) -> str:
    """The agent of `system` ("consul", "nomad") on a server."""
    return f"{system}-{host}"
