"""PlatformPlan and its parts: what the planner decides, costs and promises included, and what the
renderers read. Nothing here computes. Addresses, ports, digests and sizes are final at preview: no
value below depends on a running cluster. What the planner leaves open is in draft.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from .aws import AwsPlan
from .endpoint import Endpoint
from .fabric import FabricCheckPlan, FabricSpec
from .figures import (
    ColdStart,
    Cost,
    DeviceMemory,
    Figure,
    Layout,
    Precision,
    Refusal,
    ServingEstimate,
)

JsonObject = Mapping[str, Any]

SCHEMA_VERSION = 9
STABLE = "stable"  # the release that serves
PROTOCOLS = ("http", "grpc")  # OpenAI HTTP with SSE, Triton gRPC


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A host of the control plane: one Consul server agent and one Nomad server agent."""

    name: str  # "server-0"
    address: str  # "" where it is not known before the host exists


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host that runs work: one Consul client agent and one Nomad client agent."""

    name: str  # "cpu-0"
    pool: str
    address: str
    min_dynamic_port: int
    max_dynamic_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRange:
    """The least and most nodes of a pool whose nodes are not known at preview."""

    min: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePluginPlan:
    """Nomad's device plugin on the nodes of a pool: it announces their accelerators."""

    vendor: str  # "nvidia"
    bundle: str
    environment: str
    figures_port: int  # where it serves the devices' figures, on each node


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStore:
    """The disk of each host of a pool that has the weights of its models."""

    path: str  # where it is mounted; "" below the runtime folder
    size_bytes: int
    download_gbps: float | None  # that a host may use for weights; None without a limit
    files_at_once: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """The image in which the engines of a pool run."""

    name: str  # "registry.example/triton@sha256:…", or an ID: "sha256:…"
    archive: str  # the operator's file that has it, relative to the checkout; "" from a registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes of one shape; a Nomad node pool of the same name.

    A pool has `hosts`, whose names and addresses are known, or a `range`: nodes that register
    themselves once they run.
    """

    name: str
    kind: str  # the realisation: "local", "aws", "metal"
    hosts: tuple[Node, ...]
    range: NodeRange | None
    memory_bytes: int  # what one node offers to tasks; 0 where unknown
    cpu_mhz: int  # what one node offers to tasks, in Nomad's unit; 0 where unknown
    accelerator: str  # catalog key, "" for a CPU pool
    accelerator_names: tuple[str, ...]  # what drivers call such a device; empty where unknown
    accelerator_memory_bytes: int  # that a device reports; 0 for a CPU pool
    accelerators_per_node: int
    accelerators_used: int  # at every model's minimum
    accelerators_used_at_most: int  # at every model's maximum
    instance: str  # catalog key; "" on machines that are owned
    market: str  # "on_demand" | "spot" | "reserved" | "owned"
    usd_per_hour: Figure  # cost of its nodes at the declared load
    fabric: FabricSpec  # between nodes
    quota_nodes: int | None  # the account's quota
    device_plugin: DevicePluginPlan | None  # None for a CPU pool
    model_store: ModelStore | None  # None: below the runtime folder, whose size is not known
    image: ContainerImage | None  # None: engines run from environments of the hosts
    fabric_check: FabricCheckPlan | None = None  # None for a pool without groups

    def __post_init__(self) -> None:
        if bool(self.hosts) == (self.range is not None):
            raise ValueError(f"pool {self.name} must have either hosts or a range")

    @property
    def nodes_min(self) -> int:
        return len(self.hosts) if self.range is None else self.range.min

    @property
    def nodes_max(self) -> int:
        return len(self.hosts) if self.range is None else self.range.max


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSpec:
    """A folder of prepared weights in a node's model store.

    The replica's bundle has the program that prepares it, `entrypoint`; `python` names the
    environment whose interpreter runs it.
    """

    directory: str  # "weights/smollm2-1a2b3c4d": relative to the store
    document: JsonObject  # what the program reads
    python: str
    entrypoint: str
    credentials: str | None = None  # the Nomad variable that has them
    # Hosts fetch them from their source; others are prepared beside the operator and delivered.
    fetched_by_hosts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsProxySpec:
    """An Envoy in front of a replica that is reached over the network. The replica itself listens
    on loopback only."""

    server_name: str  # in the certificates of nodes
    clients: tuple[str, ...]  # the names of clients that may connect
    tool: str  # "envoy-1.40.0"
    cpu_mhz: int  # out of the replica's
    memory_bytes: int  # beside the replica's
    # Checks verify `server_name` instead of the node's address, which its certificate does not
    # have: nodes of a range share one.
    by_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """The container of a replica. Its server and its weights step run by the image's Python."""

    image: str
    memory_limit_bytes: int
    shared_memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """One replica of a model, in terms that fit every scheduler.

    `bundle` and `environments` are folder names under `bundles/` and `envs/` of the runtime
    folder; `python` names the environment whose interpreter runs `entrypoint`, unless it is the
    container's.
    """

    bundle: str
    entrypoint: str
    python: str
    environments: Mapping[str, str]  # name -> folder name, e.g. {"vllm": "vllm-1a2b3c4d"}
    document: JsonObject  # schemas/replica.schema.json
    weights: WeightsSpec | None
    ports: tuple[str, ...]  # ("openai", "grpc", "http", "metrics")
    cpu_mhz: int  # per node, as are memory and devices
    memory_bytes: int
    devices: int  # accelerators
    driver: str  # the oldest driver of the devices with which the engine works; "" where unknown
    load_timeout_s: int
    drain_timeout_s: int
    nodes: int = 1  # more than 1 where a pipeline spans nodes
    store: str = ""  # the model store that has its weights; "" is the runtime folder
    container: ContainerSpec | None = None  # None where it runs on the host itself
    proxy: TlsProxySpec | None = None  # None where all hosts are this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """The bounds of the autoscaler. Pulumi never sets the current count."""

    min_replicas: int
    max_replicas: int
    target_inflight_per_replica: int  # requests in flight per replica, seen by Envoy
    cooldown_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyGoal:
    ttft_p95_ms: int | None
    tpot_p95_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLoad:
    """The load a model is planned for; lengths are those of the mean request."""

    requests_per_s: float
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One generation of a model's replicas: a job with its own count and scaling bounds. `job_id`
    carries the spec's digest (docs/architecture.md): a changed spec becomes a new job, which
    replaces the old one within the same release.
    """

    name: str  # "stable"
    spec_digest: str  # 6 hex characters over everything that needs new replicas when it changes
    job_id: str  # "model-smollm2-3f9c1a"
    # What the names of its replicas' Consul services begin with (components/serving/services.py):
    # the job's ID, or "model-smollm2-all" for all specs of a model whose replicas are exchanged one
    # by one.
    service: str
    scaling: ScalingSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWithoutJobs:
    """A model as it will be served: what it needs, costs and promises, but not by what names."""

    name: str
    aliases: tuple[str, ...]
    architecture: str  # catalog key
    license: str  # of the weights; "" where neither the model file nor the catalog states it

    # Where it runs, and how.
    pool: str
    accelerator: str  # catalog key; "" on a CPU pool
    accelerator_vendor: str  # "nvidia"; "" on a CPU pool
    instance: str  # catalog key; "" on machines that are owned
    layout: Layout
    precision: Precision
    protocols: tuple[str, ...]  # a subset of PROTOCOLS: what its replicas speak
    replica: ReplicaSpec  # what its jobs ask for
    surge: int | None  # 0: a change replaces replicas one by one; None: a full new set starts first
    # Spare replicas beside every model at its maximum: room for a changed spec to start in.
    surge_replicas: int

    # The load it is planned for, and what that takes.
    goal: LatencyGoal
    load: PlannedLoad | None
    memory: DeviceMemory  # per device; on processors, of the whole replica
    parameters: int
    active_parameters: int
    sequences_at_mean_length: int  # concurrent requests that the KV cache holds
    replicas_needed: Figure  # for the declared load and goal
    utilization: float  # of the minimum replicas under the declared load, 1.0 = saturated
    serving: ServingEstimate | None  # None without a declared load or without an estimate
    meets_goal: bool | None  # None without a goal or without an estimate
    cold_start: ColdStart
    cost: Cost
    refused: tuple[Refusal, ...]  # the pools that were not chosen
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan(ModelWithoutJobs):
    """A model with its jobs, and with its route to them."""

    releases: tuple[Release, ...]
    route: JsonObject  # schemas/route.schema.json

    @property
    def stable(self) -> Release:
        """The release that serves."""
        return next(release for release in self.releases if release.name == STABLE)

    @property
    def scaling(self) -> ScalingSpec:
        return self.stable.scaling


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyPlan:
    """One Envoy and the control plane beside it, on one node of the pool."""

    name: str  # of Envoy's job
    xds_name: str  # of its control plane's job
    pool: str
    node: str  # "edge-0"; "" where it is not known before the host exists
    listener: Endpoint  # OpenAI HTTP and Triton gRPC
    metrics: Endpoint  # its statistics, endpoints and readiness, to be read
    xds: Endpoint
    xds_http: Endpoint  # the control plane's metrics and status


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePlan:
    """The certificate that clients are shown. Its files are the operator's, relative to the
    checkout or to the user's home (~)."""

    cert: str
    key: str
    fingerprint: str  # SHA-256 of the certificate, hexadecimal
    expires: str  # "2027-01-31"


EQUAL = "equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """The Envoys, and how clients reach them."""

    envoys: tuple[EnvoyPlan, ...]
    clients: Endpoint
    shared_address: str  # of all Envoys; one of the living hosts has it. "" without one
    xds_bundle: str
    xds_environment: str
    weights: str  # of replicas: "load", by what their engines report, or EQUAL
    certificate: CertificatePlan | None = None  # None where clients speak plain HTTP


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPlan:
    pool: str
    prometheus: Endpoint
    scrape_interval_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingPlan:
    pool: str
    autoscaler: Endpoint
    evaluation_interval_s: int
    envoys: int  # their statistics add up to the load; while one is missing, counts stay
    scrape_valid_s: int  # the age from which on a scrape of an Envoy says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """When snapshots of the clusters are taken, and which host keeps them."""

    pool: str
    node: str  # "edge-0"; "" where it is not known before the host exists
    address: str
    every_h: int
    keep: int  # so many are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAgentPlan:
    """The programs that run on hosts, first of all the one that supervises a host's agents: their
    code and their Python environment."""

    bundle: str
    environment: str
    supervisor: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """A host as SSH reaches it. `host_key` is its public key: no other host is taken for it."""

    address: str
    port: int
    user: str
    host_key: str  # "ssh-ed25519 AAAA…"; "" where it is not known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelsPlan:
    """Private hosts have SSH at loopback addresses of the operator's machine, each of which a
    command forwards to one host for as long as it runs (cli.reach)."""

    region: str
    network: str  # of the hosts: 10.40.0.0/16
    local: str  # of the same size, of the loopback network: 127.201.0.0/16

    def loopback(self, private: str) -> str:
        return _moved(private, self.network, self.local)

    def private(self, loopback: str) -> str:
        return _moved(loopback, self.local, self.network)


def _moved(address: str, network: str, other: str) -> str:
    """The address at the same place of another network of the same size."""
    place = int(IPv4Address(address)) - int(IPv4Network(network).network_address)
    return str(IPv4Network(other).network_address + place)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshPlan:
    """How the operator's machine reaches the hosts, by name. Private keys come from an ssh-agent,
    which holds those of the files `keys`, or without any what the user put there."""

    hosts: Mapping[str, SshHost]
    jump: SshHost | None
    keys: tuple[str, ...]
    known_hosts: str  # the file that the public keys come from
    # Whether `slipway up` makes those of new hosts and adds them to the file.
    makes_host_keys: bool = False
    tunnels: TunnelsPlan | None = None  # None where addresses are the hosts' own

    def own_address(self, host: str) -> str:
        """That of a host in its own network."""
        address = self.hosts[host].address
        return self.tunnels.private(address) if self.tunnels else address

    @property
    def unknown(self) -> tuple[SshHost, ...]:
        """The hosts whose public keys are not known."""
        hosts = [*self.hosts.values(), *([self.jump] if self.jump else [])]
        return tuple(host for host in hosts if not host.host_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAuthorityPlan:
    """A certificate authority that the user brings. Plans have neither its certificates nor its
    key."""

    fingerprint: str  # SHA-256 of the certificate that signs, in hexadecimal
    subject: str
    ends: str  # ISO 8601, in UTC
    leaf_valid_days: int  # of what it signs


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEnvoy:
    """The addresses at which the operator's machine reaches one Envoy and the control plane beside
    it."""

    listener: Endpoint
    metrics: Endpoint
    xds_http: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlan:
    """The programs that the operator's machine runs beside Pulumi, and the addresses at which its
    commands, gates and providers reach the platform.

    Where all hosts are this machine, these are the platform's own endpoints. Elsewhere `forwarded`
    is true: they are loopback addresses of the operator's machine, which commands forward over SSH
    for as long as they run (cli.reach).
    """

    bundle: str  # the code of gates, admission, permissions and delivery
    consul: Endpoint
    nomad: Endpoint
    prometheus: Endpoint
    envoys: tuple[OperatorEnvoy, ...]  # in the order of the gateway's
    forwarded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityPlan:
    """The authorities and the gossip key that agents trust. The platform's own authorities are
    generations (numbers)."""

    # Whose certificates everybody accepts; the first signs.
    authorities: tuple[int | OwnAuthorityPlan, ...]
    gossip_key: int

    @property
    def authority_ids(self) -> tuple[int | str, ...]:
        """Generations, and fingerprints."""
        return tuple(
            each.fingerprint if isinstance(each, OwnAuthorityPlan) else each
            for each in self.authorities
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerNames:
    """The names in certificates by which parts of the platform verify each other, besides the names
    of Consul's and Nomad's agents."""

    replica: str  # every node's: replicas speak for the node they run on
    gateway: str
    prometheus: str
    autoscaler: str
    operator: str
    introducer: str  # of new nodes of elastic pools


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPlan:
    """Spending limits in US dollars; None where there is none."""

    usd_per_hour: float | None = None  # at the declared load
    usd_per_hour_at_most: float | None = None  # with every model at its maximum
    usd_per_hour_per_change: float | None = None  # added by one change


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformWithoutModels:
    """What is planned of an environment beside its models."""

    environment: str  # "dev"
    target: str  # "dev" | "aws" | "metal"
    datacenter: str
    cidr: str
    servers: tuple[Server, ...]
    consul: Endpoint  # the servers' API; agents on other hosts listen on the same port
    nomad: Endpoint
    # The public keys of workload identities, beside each Nomad server: how Consul asks for them.
    workload_keys: Endpoint
    peers: PeerNames
    security: SecurityPlan
    pools: tuple[Pool, ...]
    gateway: GatewayPlan
    monitoring: MonitoringPlan
    autoscaling: AutoscalingPlan
    snapshots: SnapshotPlan | None  # None on one machine, where nothing outlives the servers
    node_agent: NodeAgentPlan
    ssh: SshPlan | None  # None where hosts are not reached over SSH
    aws: AwsPlan | None  # None elsewhere, and where it can only be planned
    operator: OperatorPlan
    tools: Mapping[str, str]  # tool name -> version, e.g. {"envoy": "1.40.0"}
    cost: Cost  # of all nodes at the declared load
    usd_per_hour_at_most: float  # with every model at its maximum
    budget: BudgetPlan
    warnings: tuple[str, ...]  # e.g. a price older than 90 days
    schema_version: int = SCHEMA_VERSION

    def on_servers(self, api: Endpoint) -> tuple[Endpoint, ...]:
        """Where each server answers for `api`, which is consul or nomad."""
        return tuple(api.at(server.address) for server in self.servers)

    def servers_of(self, api: Endpoint) -> tuple[Endpoint, ...]:
        """The addresses of `api` (operator.consul or operator.nomad) for the operator's machine:
        those of all servers or, where they are forwarded, the one that leads to a living server."""
        return (api,) if self.operator.forwarded else self.on_servers(api)

    @property
    def envoys_as_seen(self) -> tuple[tuple[EnvoyPlan, OperatorEnvoy], ...]:
        """Every Envoy, and how the operator's machine reaches it."""
        return tuple(zip(self.gateway.envoys, self.operator.envoys, strict=True))

    @property
    def device_plugin(self) -> DevicePluginPlan | None:
        """That of some pool with accelerators; None if there is no such pool."""
        plugins = (pool.device_plugin for pool in self.pools)
        return next((plugin for plugin in plugins if plugin is not None), None)

    def pool(self, name: str) -> Pool:
        return next(pool for pool in self.pools if pool.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformPlan(PlatformWithoutModels):
    """A whole environment as it will be built."""

    models: tuple[ModelPlan, ...]
