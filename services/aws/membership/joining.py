"""Makes an instance a node: its disks, what jobs run, an introduction, its agents.

The introduction is for this instance alone. A node that has joined needs none at its next boot. Its
agents are brought to the document by services/host, as on every other host.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable

from instance import metadata
from instance.artifacts import IncompleteError, bring
from instance.objects import Bucket
from instance.refusal import RefusedError
from program.errors import HostError
from program.folders import write_private
from program.waiting import say

from membership import local_disks, pool_secret
from membership.document import Boot
from membership.introducers import HAS, introduced, requested
from membership.node import Node
from membership.pool_secret import PoolSecret


def join(node: Node) -> PoolSecret:
    """Returns what the node has taken up. Raises HostError with what is missing."""
    boot, known = node.boot, pool_secret.current(node.boot)
    if boot.model_store is not None:
        local_disks.mount(boot.model_store)
    if not boot.folders.joined(node.host).exists():
        known = _all_brought(boot, known)
        name, introduction = introduced(boot, known.certificate)
        if name != node.host:
            raise HostError(f"this instance is introduced as {name}, and is {node.host}")
        write_private(boot.folders.introduction, introduction)
        say(f"introduced as {node.host}")
    take_up(node, known)
    return known


def _all_brought(boot: Boot, known: PoolSecret) -> PoolSecret:
    """The pool's secret, once all that it names is here, and what jobs run until they are updated:
    work may be moved to a node as soon as it is known."""
    while True:
        _bring(boot, {*known.artifacts, *_running(boot)})
        newest = pool_secret.current(boot)  # gigabytes take minutes
        if newest.artifacts == known.artifacts:
            return newest
        known = newest


def take_up(node: Node, known: PoolSecret) -> None:
    """Brings the node to what its pool's secret says. Raises HostError."""
    _bring(node.boot, known.artifacts)
    node.apply(known.agents)
    requested(node.boot, known.certificate, f"{HAS} {known.digest}")


def _running(boot: Boot) -> tuple[str, ...]:
    """Empty before the first `up` of the environment has ended."""
    try:
        with _bucket(boot).opened(boot.running) as answer:
            return tuple(json.loads(answer.read()))
    except RefusedError as error:
        say(f"no list of what jobs run yet: {error}")
        return ()
    except (OSError, ValueError) as error:
        raise HostError(f"{boot.running}: {error}") from None


def _bucket(boot: Boot) -> Bucket:
    return Bucket(boot.bucket, boot.region, metadata.credentials())


def _bring(boot: Boot, artifacts: Iterable[str]) -> None:
    try:
        bucket = _bucket(boot)
        for artifact in sorted(artifacts):
            if bring(artifact, boot.prefix, boot.folders.cache, bucket):
                say(f"{artifact} is here")
    except (OSError, RefusedError, IncompleteError, tarfile.TarError) as error:
        raise HostError(str(error)) from None
