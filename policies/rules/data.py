"""Data that must not be lost."""

from __future__ import annotations

from collections.abc import Iterator

from rules.facts import Unevaluable
from rules.rule import (
    AWS_AUTO_SCALING_GROUP,
    AWS_INSTANCE,
    CONSUL_CLUSTER,
    NODE_POOL,
    NOMAD_CLUSTER,
    PRODUCTION,
    Resource,
    rule,
)


@rule(
    AWS_AUTO_SCALING_GROUP,
    AWS_INSTANCE,
    NODE_POOL,
    CONSUL_CLUSTER,
    NOMAD_CLUSTER,
    severity=PRODUCTION,
    why="A renamed key or a moved resource is a replace: unprotected, a whole pool or a cluster's"
    " data goes with one confirmed preview.",
    fix="Set `protect` on the resource. To remove it, first remove `protect` in a separate change.",
)
def unprotected(resource: Resource) -> Iterator[str]:
    """What holds data or machines is protected from deletion"""
    if resource.protect is None:
        raise Unevaluable("the document does not say whether it is protected")
    if not resource.protect:
        yield "is not protected"
