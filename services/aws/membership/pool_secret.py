"""What every node of a pool must know now: the value of the pool's secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instance import metadata
from instance.refusal import RefusedError
from instance.secrets import secret
from program.document import parsing
from program.errors import HostError

from membership.document import Boot

SCHEMA = "pool-secret.schema.json"


@dataclass(frozen=True)
class PoolSecret:
    """`agents`: the secrets of the host's agents, with the pool's certificate; `artifacts`: what
    jobs in the pool will run, folders of the cache with the `digest` of their list."""

    agents: Mapping[str, Any]
    artifacts: tuple[str, ...]
    digest: str

    @property
    def certificate(self) -> Mapping[str, str]:
        files: Mapping[str, str] = self.agents["certificate"]
        return files


def read_pool_secret(text: str) -> PoolSecret:
    with parsing(SCHEMA):
        document = json.loads(text)
        artifacts = document.pop("artifacts")
        return PoolSecret(
            agents=document, artifacts=tuple(artifacts["folders"]), digest=artifacts["digest"]
        )


def current(boot: Boot) -> PoolSecret:
    """Raises HostError while it cannot be read."""
    try:
        return read_pool_secret(secret(boot.secret, boot.region, metadata.credentials()))
    except (OSError, RefusedError) as error:
        raise HostError(f"{boot.pool}: {error}") from None
