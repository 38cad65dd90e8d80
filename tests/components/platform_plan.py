"""The dev environment with a real and a simulated model, on a machine that never changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slipway.certificates.public_certificate import PublicCertificate
from slipway.config.dev import DeploymentSettings
from slipway.config.document import Origin
from slipway.config.model import Model, parse_model
from slipway.config.settings import ReplicaSettings
from slipway.plan.draft import PlatformDraft
from slipway.plan.platform import PlatformPlan
from slipway.planner.platform import draft_plan
from stacks.planning import completed
from tests.unit.plan.samples import ARTIFACTS, dev_inputs

TOOLS = {
    "consul": "1.22.6",
    "envoy": "1.40.0",
    "nomad": "1.11.3",
    "nomad-autoscaler": "0.5.0",
    "prometheus": "3.14.0",
}
POOLS = {
    "cpu": {"kind": "local", "nodes": 2},
    "edge": {"kind": "local", "nodes": 1, "memory": "2GiB"},
}
LARGEST = ReplicaSettings(min=1, max=2)


def platform_plan(**changes: Any) -> PlatformPlan:
    """The plan of `platform_draft`, complete."""
    return completed(platform_draft(**changes))


def platform_draft(
    *,
    simulated: Sequence[str] = ("sim",),
    in_turn: Collection[str] = (),
    pools: Mapping[str, Any] = POOLS,
    certificate: PublicCertificate | None = None,
    **changes: Any,
) -> PlatformDraft:
    """A plan with smollm2 and the simulated models, all on the pool `cpu`.

    Models `in_turn` have `surge: 0`. `changes` replace values of slipway:<key>. With a
    `certificate`, the gateway shows it to clients: tls/cert.pem.
    """
    if certificate is not None:
        files = {"cert": "tls/cert.pem", "key": "tls/key.pem"}
        changes["gateway"] = {**changes.get("gateway", {}), "certificate": files}
    inputs = dev_inputs(artifacts=replace(ARTIFACTS, tools=TOOLS), pools=dict(pools), **changes)
    models = dict(inputs.models) | {name: simulated_model(name) for name in simulated}
    deployments = {
        name: DeploymentSettings(pool="cpu", replicas=LARGEST, surge=0 if name in in_turn else None)
        for name in models
    }
    settings = inputs.environment.settings.model_copy(update={"models": deployments})
    environment = replace(inputs.environment, settings=settings)
    return draft_plan(
        replace(inputs, environment=environment, models=models, certificate=certificate)
    )


def simulated_model(name: str) -> Model:
    """A model that nothing has to be loaded for."""
    document = {
        "name": name,
        "engine": {
            "kind": "sim",
            "architecture": "llama-3.1-8b",
            "profile": "h100-fp8-llama-3.1-8b",
            "max_model_len": 8192,
            "max_num_seqs": 32,
        },
    }
    return parse_model(document, origin=Origin(source=f"models/{name}.yaml"))
