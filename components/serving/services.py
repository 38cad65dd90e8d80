"""The Consul services of a model's replicas, which are Envoy's clusters, too.

Programs that stand apart know the suffixes as well: the gates of models (gates/protocols.py) and
the control plane (control_plane/routing.py).
"""

from __future__ import annotations

SUFFIXES = {"http": "-openai", "grpc": "-grpc"}  # protocol -> what its service's name ends in


def service_of(name: str, protocol: str) -> str:
    """The service of the replicas registered as `name` for a protocol."""
    return name + SUFFIXES[protocol]


def services_matching(names: str) -> str:
    """A regular expression of the services, over all protocols, whose names match another one."""
    endings = "|".join(suffix.removeprefix("-") for suffix in SUFFIXES.values())
    return f"{names}-({endings})"


def service_of_all_specs(model: str) -> str:
    """Cannot clash with another model's service: "all" is not a digest, so no job ID ends in it."""
    return f"model-{model}-all"
