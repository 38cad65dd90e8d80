"""Clients of both clusters of an environment, with the operator's rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.clusters.consul import Consul
from cli.clusters.nomad import Nomad
from cli.environment import token_in
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    nomad: Nomad
    consul: Consul


@contextmanager
def clusters(plan: PlatformPlan, credentials: Path) -> Iterator[Clusters]:
    """Clients of servers that answer, if there are any. `credentials` is the folder of the
    operator's certificate and tokens."""

    def access(api: Endpoint, name: str) -> tuple[list[str], str | None, Path, str]:
        servers = [server.url for server in plan.servers_of(api)]
        return servers, token_in(credentials, name), credentials / "operator", api.server_name

    with (
        Nomad.of_any(*access(plan.operator.nomad, "nomad")) as nomad,
        Consul.of_any(*access(plan.operator.consul, "consul")) as consul,
    ):
        yield Clusters(nomad=nomad, consul=consul)
