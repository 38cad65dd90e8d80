"""Consul as the discovery of models: the control plane reads their routes from its KV store."""

from __future__ import annotations

import json

import pulumi
import pulumi_consul as consul

from components.base import SlipwayComponent
from slipway.plan.platform import ModelPlan

ROUTE_PREFIX = "slipway/routes"


class ConsulDiscovery:
    def route(
        self, model: ModelPlan, name: str, parent: SlipwayComponent, ready: pulumi.Resource
    ) -> pulumi.Resource:
        return consul.Keys(
            name,
            keys=[
                consul.KeysKeyArgs(
                    path=f"{ROUTE_PREFIX}/{model.name}",
                    value=json.dumps(model.route, indent=2, sort_keys=True) + "\n",
                    delete=True,
                )
            ],
            opts=parent.child_options(depends_on=[ready]),
        )
