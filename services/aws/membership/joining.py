"""Makes an instance a node: its disks, what jobs run, an introduction, its agents.

The introduction is for this instance alone. A node that has joined needs none at its next boot. Its
agents are brought to the document by services/host, as on every other host.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable

from instance import metadata
from instance.artifacts import IncompleteError, bring
from instance.objects import Bucket
from instance.refusal import RefusedError
from program.errors import HostError
from program.folders import write_private
from program.waiting import say

from membership import local_disks
from membership.document import Boot
from membership.introducers import HAS, introduced, requested
from membership.node import Node
from membership.pool_secret import PoolSecret, previous_artifacts


def join(node: Node, known: PoolSecret) -> None:
    """Raises HostError with what is missing."""
    boot = node.boot
    if boot.model_store is not None:
        local_disks.mount(boot.model_store)
    if not boot.folders.joined(node.host).exists():
        # Work of before may be moved here as soon as the node is known.
        _bring(boot, {*known.artifacts, *previous_artifacts(boot)})
        name, introduction = introduced(boot, known.certificate)
        if name != node.host:
            raise HostError(f"this instance is introduced as {name}, and is {node.host}")
        write_private(boot.folders.introduction, introduction)
        say(f"introduced as {node.host}")
    take_up(node, known)


def take_up(node: Node, known: PoolSecret) -> None:
    """Brings the node to what its pool's secret says. Raises HostError."""
    _bring(node.boot, known.artifacts)
    node.apply(known.agents)
    requested(node.boot, known.certificate, f"{HAS} {known.digest}")


def _bring(boot: Boot, artifacts: Iterable[str]) -> None:
    try:
        bucket = Bucket(boot.bucket, boot.region, metadata.credentials())
        for artifact in sorted(artifacts):
            if bring(artifact, boot.prefix, boot.folders.cache, bucket):
                say(f"{artifact} is here")
    except (OSError, RefusedError, IncompleteError, tarfile.TarError) as error:
        raise HostError(str(error)) from None
