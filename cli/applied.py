"""The plan that an environment was last brought up with: what runs, even if the files have
changed."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from cli.certificates import PublicTls, platform
from cli.environment import Environment
from cli.errors import CliError
from slipway.plan.document import plan_to_json
from slipway.plan.endpoint import SYSTEM, Endpoint
from slipway.plan.platform import PROTOCOLS, STABLE, LatencyGoal, PlatformPlan, ScalingSpec
from slipway.planner.engines.registry import ENGINES


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedModel:
    """A model as it was deployed. `scaling` is None in plans that do not say it."""

    name: str
    aliases: tuple[str, ...]
    job_id: str
    load_timeout_s: int
    drain_timeout_s: int
    simulated: bool
    protocols: tuple[str, ...]  # of slipway.plan.platform.PROTOCOLS
    engine: str  # the kind in its model file
    goal: LatencyGoal
    scaling: ScalingSpec | None = None
    members: int = 1  # allocations of one replica


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedNode:
    """A node whose address is known before it exists."""

    name: str
    pool: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Addresses are URLs without a path, except `gateway_grpc` (host:port) and those of nodes.
    `envoy_metrics` and `xds` have one for each Envoy.

    `operator` is the folder of the client certificate for these addresses. `server_names` are the
    names in the servers' certificates, for addresses that lead there through SSH. `tls` says how
    clients verify the gateway; None where they speak plain HTTP.
    """

    environment: str
    gateway_http: str
    gateway_grpc: str
    envoy_metrics: tuple[str, ...]
    xds: tuple[str, ...]
    prometheus: str
    nomad: str
    consul: str
    servers: tuple[str, ...]  # Nomad's API
    nodes: tuple[AppliedNode, ...]
    models: tuple[AppliedModel, ...]
    node_bundle: str
    node_environment: str
    operator: Path
    clients_url: str = ""  # by which clients of their own reach the gateway; "" if not known
    tls: PublicTls | None = None
    server_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def envoys(self) -> int:
        return len(self.envoy_metrics)

    @property
    def gateway(self) -> dict[str, str]:
        """The gateway in a report: its addresses, and the name that a certificate gives it."""
        name = {"server_name": self.tls.name} if self.tls else {}
        return {"http": self.gateway_http, "grpc": self.gateway_grpc, **name}

    def verified(self, address: str) -> ssl.SSLContext:
        """The TLS context of a client: it verifies the server at the address and shows the
        operator's certificate."""
        return platform(self.operator, self.server_names.get(address, ""))

    def model(self, name: str) -> AppliedModel | None:
        """A model by its name or an alias."""
        return next((m for m in self.models if name == m.name or name in m.aliases), None)

    @property
    def shown_model(self) -> AppliedModel | None:
        """The model whose answer is shown: one with a real engine, else a simulated one."""
        return next((m for m in self.models if not m.simulated), next(iter(self.models), None))

    def names(self) -> Iterator[str]:
        """Every name and alias that clients can use for a model."""
        for model in self.models:
            yield model.name
            yield from model.aliases


def record(environment: Environment, plan: PlatformPlan) -> Applied:
    """Records `plan` as the running one, atomically."""
    text = plan_to_json(plan)
    partial = _path(environment).with_suffix(".partial")
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    partial.replace(_path(environment))
    return _of(environment, json.loads(text))


def recorded(environment: Environment) -> Applied | None:
    """The recorded plan; None if the environment was never brought up or was taken down."""
    try:
        document = json.loads(_path(environment).read_text())
    except FileNotFoundError:
        return None
    return _of(environment, document)


def current(environment: Environment, otherwise: Applied) -> Applied:
    """The recorded plan, which an `up` may have changed since a long command began; `otherwise` for
    an environment that is not recorded here."""
    return recorded(environment) or otherwise


def _of(environment: Environment, document: Mapping[str, Any]) -> Applied:
    return from_document(document, operator=environment.operator, checkout=environment.checkout)


def require(environment: Environment) -> Applied:
    """`recorded`, or a CliError that says how to bring the environment up."""
    applied = recorded(environment)
    if applied is None:
        name = environment.name
        raise CliError(
            f'the environment "{name}" has not been brought up', fix=f"slipway up -s {name}"
        )
    return applied


def planned(environment: Environment, plan: PlatformPlan, *, operator: Path) -> Applied:
    """The plan of the files, for an environment that runs on other machines and is not recorded
    here."""
    document = json.loads(plan_to_json(plan))
    return from_document(document, operator=operator, checkout=environment.checkout)


def from_document(
    plan: Mapping[str, Any], *, operator: Path = Path(), checkout: Path = Path()
) -> Applied:
    """The addresses and names that commands need, from a plan's JSON of this or an earlier version:
    the program that brought the environment up may be older than this one."""
    version = plan["schema_version"]
    if version == 1:
        return _from_version_1(plan, operator)
    seen = plan.get("operator") or _own_endpoints(plan)
    nomad, consul, prometheus = (
        _endpoint(seen[name]) for name in ("nomad", "consul", "prometheus")
    )
    metrics, xds = (
        [_endpoint(envoy[door]) for envoy in seen["envoys"]] for door in ("metrics", "xds_http")
    )
    clients, servers = _endpoint(plan["gateway"]["clients"]), plan["servers"]
    # A forwarded address stands for all of its kind: the first listener for every Envoy's.
    forwarded = seen["forwarded"]
    gateway = _endpoint(seen["envoys"][0]["listener"]) if forwarded else clients
    return Applied(
        environment=plan["environment"],
        gateway_http=gateway.url,
        gateway_grpc=gateway.authority,
        envoy_metrics=tuple(each.url for each in metrics),
        xds=tuple(each.url for each in xds),
        prometheus=prometheus.url,
        nomad=nomad.url,
        consul=consul.url,
        servers=(nomad.url,) if forwarded else tuple(nomad.at(s["address"]).url for s in servers),
        nodes=_nodes(node for pool in plan["pools"] for node in pool["hosts"]),
        models=tuple(
            _model(model, _stable(model)["job_id"], model["protocols"]) for model in plan["models"]
        ),
        node_bundle=plan["node_agent"]["bundle"],
        node_environment=plan["node_agent"]["environment"],
        operator=operator,
        server_names={
            each.url: each.server_name
            for each in (nomad, consul, prometheus, *metrics, *xds)
            if each.server_name
        },
        clients_url=_url_for_clients(clients),
        tls=_public_tls(clients, checkout),
    )


def _url_for_clients(clients: Endpoint) -> str:
    """By the name in its certificate, which DNS leads to the gateway."""
    host = clients.server_name or clients.host
    return clients.at(host).url if host else ""


def _own_endpoints(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What the operator's machine asks, in plans that do not say it: of one machine, and in
    version 2, in which the port for metrics was called admin."""
    metrics = "admin" if plan["schema_version"] == 2 else "metrics"
    return {
        "consul": plan["consul"],
        "nomad": plan["nomad"],
        "prometheus": plan["monitoring"]["prometheus"],
        "envoys": [
            {"metrics": envoy[metrics], "xds_http": envoy["xds_http"]}
            for envoy in plan["gateway"]["envoys"]
        ],
        "forwarded": False,
    }


def _public_tls(clients: Endpoint, checkout: Path) -> PublicTls | None:
    if clients.scheme == "http":
        return None
    authorities = None if clients.ca == SYSTEM else checkout / Path(clients.ca).expanduser()
    return PublicTls(name=clients.server_name, authorities=authorities)


def _stable(model: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(release for release in model["releases"] if release["name"] == STABLE)


def _from_version_1(plan: Mapping[str, Any], operator: Path) -> Applied:
    """In version 1 addresses and ports were separate, the plan had none for Consul and Nomad,
    every pool had nodes, the gateway was one Envoy, and every model had one job and both protocols.
    """
    gateway, monitoring = plan["gateway"], plan["monitoring"]
    first, *_ = servers = [_http(server["address"], 4646) for server in plan["servers"]]
    clients = _http(gateway["address"], gateway["port"])
    return Applied(
        environment=plan["environment"],
        gateway_http=clients.url,
        gateway_grpc=clients.authority,
        envoy_metrics=(_http(gateway["address"], gateway["admin_port"]).url,),
        xds=(_http(gateway["address"], gateway["xds_metrics_port"]).url,),
        prometheus=_http(monitoring["address"], monitoring["port"]).url,
        nomad=first.url,
        consul=_http(first.host, 8500).url,
        servers=tuple(server.url for server in servers),
        nodes=_nodes(node for pool in plan["pools"] for node in pool["nodes"]),
        models=tuple(_model(model, model["job_id"], PROTOCOLS) for model in plan["models"]),
        node_bundle=plan["node_agent"]["bundle"],
        node_environment=plan["node_agent"]["environment"],
        operator=operator,
        clients_url=clients.url,
    )


def _nodes(nodes: Iterable[Mapping[str, Any]]) -> tuple[AppliedNode, ...]:
    return tuple(
        AppliedNode(name=node["name"], pool=node["pool"], address=node["address"]) for node in nodes
    )


def _model(model: Mapping[str, Any], job_id: str, protocols: Iterable[str]) -> AppliedModel:
    engine = model["replica"]["document"]["engine"]["kind"]
    goal = model.get("goal") or {}
    return AppliedModel(
        name=model["name"],
        aliases=tuple(model["aliases"]),
        job_id=job_id,
        load_timeout_s=model["replica"]["load_timeout_s"],
        drain_timeout_s=model["replica"]["drain_timeout_s"],
        simulated=ENGINES[engine].simulated,
        protocols=tuple(protocols),
        engine=engine,
        goal=LatencyGoal(ttft_p95_ms=goal.get("ttft_p95_ms"), tpot_p95_ms=goal.get("tpot_p95_ms")),
        scaling=_scaling(model),
        members=model["replica"].get("nodes", 1),
    )


def _scaling(model: Mapping[str, Any]) -> ScalingSpec | None:
    releases = {each["name"]: each for each in model.get("releases", ())}
    found = releases.get(STABLE, {}).get("scaling")
    return found and ScalingSpec(**{each.name: found[each.name] for each in fields(ScalingSpec)})


def _endpoint(document: Mapping[str, Any]) -> Endpoint:
    return Endpoint(**document)


def _http(host: str, port: int) -> Endpoint:
    return Endpoint(scheme="http", host=host, port=port)


def _path(environment: Environment) -> Path:
    return environment.run / "plan.json"
