"""ModelService: one model as it is served."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

import pulumi
import pulumi_consul as consul
import pulumi_nomad as nomad

from components.base import HostProgram, SlipwayComponent, secret_json
from components.nomad.jobspec import to_json
from components.serving.nomad_job import DRAIN_MARGIN_S, model_job
from slipway.plan.facts import FACTS_VERSION, source_facts
from slipway.plan.platform import AutoscalingPlan, ModelPlan

ROUTE_PREFIX = "slipway/routes"
ROUTE_LIMITS = (
    "max_concurrent_requests_per_replica",
    "max_stream_duration_s",
    "stream_idle_timeout_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServiceArgs:
    model: ModelPlan
    autoscaling: AutoscalingPlan
    datacenter: str
    node_bundle: str  # the folder name of services/node's code
    nomad_address: str
    consul_address: str
    gate_secrets: pulumi.Output[str]  # of `gate_secrets`, shared by all models


class ModelService(SlipwayComponent):
    """A model's job, the gate that waits for its replicas, and its entry in the routing table.

    Owns the job of the current spec, the envelope of its count and its route. Leaves the count
    itself to the autoscaler. A changed spec replaces the job by one of another name, created and
    answering before the route moves and the old one drains; no request is lost. Removing the
    model removes its route first. Prepared weights stay on the nodes.
    """

    def __init__(
        self, name: str, args: ModelServiceArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("ModelService", name, _facts(args.model), opts)
        job = nomad.Job(
            name,
            jobspec=to_json(
                model_job(args.model, datacenter=args.datacenter, autoscaling=args.autoscaling)
            ),
            json=True,
            preserve_counts=True,  # the autoscaler's count survives an update
            # Never purged: clients miss purges in quick succession and leave the replicas running
            # (nomad issue 28242). Nomad forgets a stopped job after hours.
            purge_on_destroy=False,
            detach=True,  # without deployments there is nothing to wait for; the gate below waits
            opts=self.child_options(),
        )
        ready = HostProgram(
            bundle=args.node_bundle,
            script="model_ready.py",
            document=_gate_document(args),
            secrets=args.gate_secrets,
            removes=False,
            timeout_s=_timeout_s(args.model),
        ).register(f"{name}-ready", self, depends_on=[job])
        consul.Keys(
            f"{name}-route",
            keys=[
                consul.KeysKeyArgs(
                    path=f"{ROUTE_PREFIX}/{args.model.name}",
                    value=json.dumps(args.model.route, indent=2, sort_keys=True) + "\n",
                    delete=True,
                )
            ],
            opts=self.child_options(depends_on=[ready]),
        )
        self.register_outputs({"job_id": args.model.job_id})


def gate_secrets(
    nomad_token: pulumi.Input[str], consul_token: pulumi.Input[str]
) -> pulumi.Output[str]:
    """What every model's gate needs to ask both clusters."""
    both = pulumi.Output.all(nomad_token=nomad_token, consul_token=consul_token)
    return secret_json(both.apply(lambda tokens: {"schema_version": 1, **tokens}))


def _gate_document(args: ModelServiceArgs) -> dict[str, object]:
    return {
        "schema_version": 1,
        "model": args.model.name,
        "job_id": args.model.job_id,
        "service": args.model.service,
        "surge": args.model.surge,
        "min_replicas": args.model.scaling.min_replicas,
        "max_replicas": args.model.scaling.max_replicas,
        "deadline_s": _deadline_s(args.model),
        "nomad": args.nomad_address,
        "consul": args.consul_address,
    }


def _deadline_s(model: ModelPlan) -> int:
    """Two load times: preparing weights on a new node may take as long as loading them. Replicas
    that are exchanged also wait for the one before them to drain."""
    drain_s = 0 if model.surge is None else DRAIN_MARGIN_S + model.replica.drain_timeout_s
    return 2 * model.replica.load_timeout_s + drain_s


def _timeout_s(model: ModelPlan) -> int:
    """Longer than the gate's own deadlines, whose last words say what is wrong: one for all
    replicas, or one for each of them, there and back."""
    deadlines = 1 if model.surge is None else 2 * (model.scaling.max_replicas + 1)
    return deadlines * _deadline_s(model) + 60


def _facts(model: ModelPlan) -> dict[str, object]:
    """What policies read at preview: plain values of the plan (schemas/facts.schema.json)."""
    engine, weights = model.replica.document["engine"], model.replica.weights
    return {
        "schema_version": FACTS_VERSION,
        "model": model.name,
        "aliases": list(model.aliases),
        "pool": model.pool,
        "spec_digest": model.spec_digest,
        "license": model.license,
        "source": source_facts(None if weights is None else weights.document["source"]),
        "scaling": dataclasses.asdict(model.scaling),
        "memory": dataclasses.asdict(model.memory),
        "goal": dataclasses.asdict(model.goal),
        "load": None if model.load is None else dataclasses.asdict(model.load),
        "engine": {key: engine[key] for key in ("max_model_len", "max_num_seqs", "engine_args")},
        "replica": {
            "accelerators": model.replica.accelerators,
            "memory_bytes": model.replica.memory_bytes,
            "load_timeout_s": model.replica.load_timeout_s,
            "drain_timeout_s": model.replica.drain_timeout_s,
        },
        "route": {key: model.route[key] for key in ROUTE_LIMITS},
    }
