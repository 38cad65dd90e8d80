"""Every elastic pool of an environment, with what they share: the bucket and the introducer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_aws import s3

from components import naming
from components.aws_bucket.component import AwsBucket, AwsBucketArgs
from components.aws_network.component import AwsNetwork
from components.aws_pool.component import AwsPool, AwsPoolArgs
from components.aws_pool.names import running_key
from components.aws_pool.pool_secret import running_artifacts
from components.hosts.realisation import HostRealisation
from components.introducer.component import Introducer, IntroducerArgs
from components.node_pool.elastic import ElasticPoolsArgs
from slipway.plan.aws import AwsPlan
from slipway.plan.platform import PlatformPlan


@dataclass(slots=True, kw_only=True)
class AwsPools:
    """node_pool.elastic.ElasticPools. `in_aws` are the options of what AWS's provider creates."""

    plan: PlatformPlan
    aws: AwsPlan
    hosts: HostRealisation
    network: AwsNetwork
    in_aws: pulumi.ResourceOptions
    _bucket: AwsBucket | None = None

    def create(self, args: ElasticPoolsArgs) -> Mapping[str, list[pulumi.Resource]]:
        plan, planned = args.plan, self.aws
        if not planned.pools:
            return {}
        bucket = AwsBucket(
            "bucket",
            AwsBucketArgs(plan=plan, aws=planned, programs=self.hosts.programs),
            opts=self.in_aws,
        )
        self._bucket = bucket
        introducer = Introducer(
            "introducer",
            IntroducerArgs(plan=plan, aws=planned, authority=args.authority),
            opts=args.workloads,
        )
        return {
            pool: AwsPool(
                naming.pool(pool),
                AwsPoolArgs(
                    plan=plan,
                    aws=planned,
                    pool=plan.pool(pool),
                    hosts=self.hosts,
                    network=self.network,
                    bucket=bucket,
                    authority=args.authority,
                    consul_seed=args.consul_seed,
                    nomad_token=args.nomad_token,
                    introducer=introducer.job,
                    clusters_ready=args.clusters_ready,
                ),
                opts=self.in_aws,
            ).ready
            for pool in planned.pools
        }

    def settle(self, models: list[pulumi.Resource]) -> None:
        if self._bucket is None:
            return
        for pool in self.aws.pools:
            s3.BucketObjectv2(
                f"{naming.pool(pool)}-running",
                bucket=self._bucket.name,
                key=running_key(self.plan.environment, pool),
                content=running_artifacts(self.plan, pool),
                content_type="application/json",
                opts=pulumi.ResourceOptions.merge(
                    self.in_aws, pulumi.ResourceOptions(depends_on=models, protect=False)
                ),
            )
