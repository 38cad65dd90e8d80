"""The plan that an environment was last brought up with: what runs, whatever its files say now."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.cli.environment import Environment
from slipway.cli.errors import CliError
from slipway.cli.targets import must_have_components
from slipway.plan.document import plan_to_json
from slipway.plan.platform import PlatformPlan

CONSUL_PORT = 8500
NOMAD_PORT = 4646


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedModel:
    name: str
    aliases: tuple[str, ...]
    job_id: str
    load_timeout_s: int
    drain_timeout_s: int
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Addresses are `http://` addresses without a path, except `gateway_grpc` (host:port)."""

    environment: str
    gateway_http: str
    gateway_grpc: str
    envoy_admin: str
    xds: str
    prometheus: str
    nomad: str
    consul: str
    servers: tuple[str, ...]  # Nomad's
    models: tuple[AppliedModel, ...]
    node_bundle: str
    node_environment: str

    def model(self, name: str) -> AppliedModel | None:
        """A model by its name or an alias."""
        return next((m for m in self.models if name == m.name or name in m.aliases), None)

    @property
    def shown_model(self) -> AppliedModel | None:
        """The model whose answer is shown: a real engine's before a simulated one's."""
        return next((m for m in self.models if not m.simulated), next(iter(self.models), None))

    def names(self) -> Iterator[str]:
        """Everything a client may call a model."""
        for model in self.models:
            yield model.name
            yield from model.aliases


def record(environment: Environment, plan: PlatformPlan) -> Applied:
    """Remembers `plan` as the one that runs; atomic."""
    text = plan_to_json(plan)
    partial = _path(environment).with_suffix(".partial")
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    partial.replace(_path(environment))
    return from_document(json.loads(text))


def recorded(environment: Environment) -> Applied | None:
    """None when the environment was never brought up, or was taken down."""
    try:
        return from_document(json.loads(_path(environment).read_text()))
    except FileNotFoundError:
        return None


def require(environment: Environment) -> Applied:
    """`recorded`, or a CliError that says how to get there."""
    applied = recorded(environment)
    if applied is None:
        must_have_components(environment)
        raise CliError(
            f'the environment "{environment.name}" has not been brought up',
            fix=f"slipway up -s {environment.name}",
        )
    return applied


def from_document(plan: Mapping[str, Any]) -> Applied:
    """The addresses and names that commands need, out of a plan's JSON."""
    gateway, monitoring, server = plan["gateway"], plan["monitoring"], plan["servers"][0]
    servers = tuple(_http(each["address"], NOMAD_PORT) for each in plan["servers"])
    return Applied(
        environment=plan["environment"],
        gateway_http=_http(gateway["address"], gateway["port"]),
        gateway_grpc=f"{gateway['address']}:{gateway['port']}",
        envoy_admin=_http(gateway["address"], gateway["admin_port"]),
        xds=_http(gateway["address"], gateway["xds_metrics_port"]),
        prometheus=_http(monitoring["address"], monitoring["port"]),
        nomad=servers[0],
        consul=_http(server["address"], CONSUL_PORT),
        servers=servers,
        models=tuple(_model(model) for model in plan["models"]),
        node_bundle=plan["node_agent"]["bundle"],
        node_environment=plan["node_agent"]["environment"],
    )


def _model(model: Mapping[str, Any]) -> AppliedModel:
    return AppliedModel(
        name=model["name"],
        aliases=tuple(model["aliases"]),
        job_id=model["job_id"],
        load_timeout_s=model["replica"]["load_timeout_s"],
        drain_timeout_s=model["replica"]["drain_timeout_s"],
        simulated=model["replica"]["document"]["engine"]["kind"] == "sim",
    )


def _http(address: str, port: int) -> str:
    return f"http://{address}:{port}"


def _path(environment: Environment) -> Path:
    return environment.run / "plan.json"
