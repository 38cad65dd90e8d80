"""The target aws as the test bed plays it: everything but the resources of AWS's own plugin, which
has no stand-in. A checkout of the bed has this file as stacks/targets/aws.py.

What those resources would give AWS, tests/aws/cloud.py puts into moto: the pool's secret, its boot
document and its group, and what roles may do. The user data of the pool's instances becomes a file,
from which the bed boots hosts.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_command as command

from components import naming
from components.aws_bucket.publication import publication_document
from components.aws_hosts import access as access_of_hosts
from components.aws_machine.programs import boot_programs
from components.aws_pool import access
from components.aws_pool.boot_document import (
    OF_EVERY_INSTANCE,
    as_text,
    boot_document,
    object_key,
    user_data,
)
from components.aws_pool.names import group_name, role_name, running_key, secret_name
from components.aws_pool.pool_secret import artifacts_digest, pool_secret, running_artifacts
from components.aws_pool.refresh import refresh_document, template_digest
from components.base import SlipwayComponent
from components.certificates import identities
from components.hosts.program import HostProgram, secret_json
from components.hosts.realisation import HostRealisation
from components.hosts.ssh import SshHosts
from components.hosts.supervision import Systemd
from components.introducer.component import Introducer, IntroducerArgs
from components.joining.introduction import Introduction
from components.node_pool.component import NodePool
from components.node_pool.elastic import ElasticPoolsArgs
from components.node_pool.node_document import gate_document
from components.nomad.component import operator_secrets
from components.serving.consul import ConsulDiscovery
from components.serving.nomad import NomadScheduler
from slipway.plan.aws import AwsPlan
from slipway.plan.platform import PlatformPlan
from stacks.platform import Target

TIMEOUT_S = 900
NO_SECRETS = '{"schema_version": 1}'


def hosts(plan: PlatformPlan, platform: SlipwayComponent) -> HostRealisation:
    known = HostRealisation(
        programs=SshHosts(plan),
        supervision=Systemd(),
        joining=Introduction(plan),
        changed_at_once=0.1,
    )
    return dataclasses.replace(known, elastic=BedPools(plan, known, platform))


@dataclasses.dataclass(frozen=True)
class BedPools:
    plan: PlatformPlan
    hosts: HostRealisation
    platform: SlipwayComponent

    def create(self, args: ElasticPoolsArgs) -> Mapping[str, list[pulumi.Resource]]:
        plan = args.plan
        assert plan.aws is not None
        introducer = Introducer(
            "introducer",
            IntroducerArgs(plan=plan, aws=plan.aws, authority=args.authority),
            opts=args.workloads,
        )
        filled = self.hosts.programs.run(
            HostProgram(
                bundle=plan.operator.bundle,
                script="publish.py",
                document=publication_document(plan, plan.aws),
                secrets=pulumi.Output.from_input(NO_SECRETS),
                removes=False,
                timeout_s=TIMEOUT_S,
            ),
            "bucket-filled",
            self.platform,
        )
        return {pool: self._pool(args, pool, [filled, introducer.job]) for pool in plan.aws.pools}

    def settle(self, models: list[pulumi.Resource]) -> None:
        aws = self.plan.aws
        assert aws is not None
        for pool in aws.pools:
            command.local.Command(
                f"cloud-{pool}-running",
                create='exec "$BED_PYTHON" "$(dirname "$BED_CLOUD")/put_object.py"',
                environment={
                    "BED_BUCKET": aws.bucket,
                    "BED_KEY": running_key(self.plan.environment, pool),
                    "BED_CONTENT": running_artifacts(self.plan, pool),
                },
                opts=self.platform.child_options(depends_on=models),
            )

    def _pool(
        self, args: ElasticPoolsArgs, name: str, after: list[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        plan, aws, pool = args.plan, args.plan.aws, args.plan.pool(name)
        assert aws is not None
        supervision, joining = self.hosts.supervision, self.hosts.joining
        text = as_text(boot_document(plan, aws, pool, supervision, joining))
        programs = boot_programs(*OF_EVERY_INSTANCE)
        data = user_data(plan.environment, aws, name, text, programs)
        certificate = args.authority.issue(identities.pool(plan, name))
        known = pulumi.Output.all(seed=args.consul_seed, certificate=certificate)
        secrets = known.apply(functools.partial(pool_secret, plan, name, joining))
        cloud = command.local.Command(
            f"cloud-{name}",
            create='exec "$BED_PYTHON" "$BED_CLOUD"',
            environment={
                "BED_POOL": name,
                "BED_GROUP": group_name(plan.environment, name),
                "BED_INSTANCE": aws.pools[name].instance,
                "BED_NODES_MAX": str(pool.nodes_max),
                "BED_ROLES": json.dumps(roles(plan.environment, aws, name)),
                "BED_BUCKET": aws.bucket,
                "BED_KEY": object_key(plan.environment, name, text),
                "BED_DOCUMENT": text,
                "BED_SECRET": secret_name(plan.environment, name),
                "BED_USER_DATA": data,
            },
            stdin=secret_json(secrets),
            opts=self.platform.child_options(depends_on=after),
        )
        secrets_of_gate = pulumi.Output.secret(args.nomad_token).apply(operator_secrets)
        digest = template_digest(aws, name, data)
        refresh = self.hosts.programs.run(
            HostProgram(
                bundle=plan.operator.bundle,
                script="refresh_nodes.py",
                document=refresh_document(plan.environment, aws, name, digest),
                secrets=pulumi.Output.from_input(NO_SECRETS),
                removes=False,
                timeout_s=TIMEOUT_S,
            ),
            f"{naming.pool(name)}-refreshed",
            self.platform,
            depends_on=[cloud],
        )
        gate = self.hosts.programs.run(
            HostProgram(
                bundle=plan.operator.bundle,
                script="nomad_nodes.py",
                document={
                    **gate_document(plan, pool),
                    "ready_timeout_s": TIMEOUT_S,
                    "artifacts": artifacts_digest(plan, name),
                },
                secrets=secret_json(secrets_of_gate),
                removes=False,
                timeout_s=TIMEOUT_S,
            ),
            f"{naming.pool(name)}-ready",
            self.platform,
            depends_on=[refresh],
        )
        return [gate]


def roles(environment: str, aws: AwsPlan, pool: str) -> dict[str, dict[str, Any]]:
    """What the pool's nodes may do, and what fixed hosts may."""
    return {
        role_name(environment, pool): access.of_nodes(environment, aws, pool),
        **{
            f"slipway-{environment}-{host}": access_of_hosts.own_secret(environment, aws, host)
            for host in aws.hosts
        },
    }


TARGET = Target(
    hosts=hosts,
    node_pool=NodePool,
    scheduler=NomadScheduler,
    discovery=ConsulDiscovery(),
    protect=True,
)
