"""PlatformPlan and its parts: what the planner decides and the renderers read.

Nothing here computes. Addresses, ports, digests and sizes are all final at preview: no value
below waits for a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = Mapping[str, Any]

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A host of the control plane: one Consul server agent and one Nomad server agent."""

    name: str  # "server-0"
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host that runs work: one Consul client agent and one Nomad client agent."""

    name: str  # "cpu-0"
    pool: str
    address: str
    min_dynamic_port: int
    max_dynamic_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes of one shape; a Nomad node pool of the same name."""

    name: str
    kind: str  # the realisation: "local"
    nodes: tuple[Node, ...]
    memory_bytes: int  # what one node offers to tasks
    cpu_mhz: int  # what one node offers to tasks, in Nomad's unit
    accelerator: str | None = None  # catalog key, None for a CPU pool
    accelerators_per_node: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Memory of one replica. Formulas and their sources: slipway.planner.memory.device."""

    parameters: int
    weights_bytes: int
    kv_bytes_per_token: int
    kv_cache_bytes: int
    kv_tokens: int
    overhead_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSpec:
    """Weights as a prepared folder under the runtime folder of a node."""

    directory: str  # "weights/smollm2-1a2b3c4d": relative to the runtime folder
    document: JsonObject  # what services/triton_vllm/weights.py reads


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """One replica of a model, in words that every scheduler understands.

    `bundle` and `environments` are folder names under `bundles/` and `envs/` of the runtime
    folder; `python` names the environment whose interpreter runs `entrypoint`.
    """

    bundle: str
    entrypoint: str
    python: str
    environments: Mapping[str, str]  # name -> folder name, e.g. {"vllm": "vllm-1a2b3c4d"}
    document: JsonObject  # schemas/replica.schema.json
    weights: WeightsSpec | None
    ports: tuple[str, ...]  # ("openai", "grpc", "http", "metrics")
    cpu_mhz: int
    memory_bytes: int
    accelerators: int
    load_timeout_s: int
    drain_timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """The envelope the autoscaler moves in. The count of the hour is never Pulumi's."""

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
    """What the model is planned for: requests of these mean lengths."""

    requests_per_s: float
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """A model as it will be served. `job_id` carries the spec's digest (docs/architecture.md)."""

    name: str
    aliases: tuple[str, ...]
    pool: str
    spec_digest: str  # 6 hex characters over everything whose change needs new replicas
    job_id: str  # "model-smollm2-3f9c1a"
    # Its replicas are the Consul services "<service>-openai", "-grpc" and "-triton": the job's own,
    # or those of all specs of the model ("model-smollm2-all") where replicas are exchanged.
    service: str
    surge: int | None  # 0: a change exchanges replicas one by one; None: a full set beside
    replica: ReplicaSpec
    scaling: ScalingSpec
    memory: MemoryEstimate
    goal: LatencyGoal
    route: JsonObject  # schemas/route.schema.json
    # Replicas that fit beside every model at its maximum: where a changed spec starts its replicas.
    surge_replicas: int = 0
    license: str = ""  # of the weights; "" where the catalog does not know it
    load: PlannedLoad | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """Where Envoy listens and where it finds its control plane."""

    pool: str
    address: str
    port: int  # OpenAI HTTP and Triton gRPC on one listener
    admin_port: int
    xds_port: int
    xds_metrics_port: int
    xds_bundle: str
    xds_environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPlan:
    pool: str
    address: str
    port: int
    scrape_interval_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingPlan:
    pool: str
    address: str
    port: int
    evaluation_interval_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAgentPlan:
    """The program that keeps a host's agents: its code and its Python environment."""

    bundle: str
    environment: str
    supervisor_address: str
    supervisor_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformPlan:
    environment: str  # "dev"
    target: str  # "dev", later "aws", "metal", "kubernetes"
    datacenter: str
    cidr: str
    servers: tuple[Server, ...]
    pools: tuple[Pool, ...]
    models: tuple[ModelPlan, ...]
    gateway: GatewayPlan
    monitoring: MonitoringPlan
    autoscaling: AutoscalingPlan
    node_agent: NodeAgentPlan
    tools: Mapping[str, str]  # tool name -> version, e.g. {"envoy": "1.40.0"}
    schema_version: int = SCHEMA_VERSION
    # Node -> model -> replicas: proof that all models fit at their maximum. Where replicas really
    # run is the scheduler's choice.
    placement: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
