"""The protocols of models, and the Consul service for each."""

from __future__ import annotations

_SUFFIX = {"http": "-openai", "grpc": "-grpc"}

PROTOCOLS = tuple(_SUFFIX)
SUFFIXES = tuple(_SUFFIX.values())


def service_of(name: str, protocol: str) -> str:
    """The service of the replicas registered as `name` for a protocol."""
    return name + _SUFFIX[protocol]
