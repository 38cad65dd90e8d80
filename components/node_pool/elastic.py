"""Pools whose nodes join by themselves: how a target makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pulumi

from components.certificates.component import CertificateAuthority
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticPoolsArgs:
    plan: PlatformPlan
    authority: CertificateAuthority
    consul_seed: pulumi.Input[str]
    nomad_token: pulumi.Input[str]
    workloads: pulumi.ResourceOptions  # of what Nomad runs, such as whoever lets nodes in
    clusters_ready: list[pulumi.Resource]  # the servers and permissions of both clusters


class ElasticPools(Protocol):
    def create(self, args: ElasticPoolsArgs) -> Mapping[str, list[pulumi.Resource]]:
        """Creates every pool of the plan that has a range; returns what the jobs of each depend
        on."""

    def settle(self, models: list[pulumi.Resource]) -> None:
        """Lets nodes that join from now on fetch nothing of models of before, once `models` are
        there."""
