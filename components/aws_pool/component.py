"""AwsPool: an elastic pool, whose nodes AWS starts and ends."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.aws_bucket.component import AwsBucket
from components.aws_machine.access import assumed_by_instances
from components.aws_machine.programs import boot_programs
from components.aws_machine.template import METADATA_OPTIONS, image_id, root_volume
from components.aws_network.component import AwsNetwork
from components.aws_network.security_groups import NODES, fabric_group
from components.aws_pool import access, lifecycle
from components.aws_pool.boot_document import (
    OF_EVERY_INSTANCE,
    as_text,
    boot_document,
    object_key,
    user_data,
)
from components.aws_pool.names import (
    group_name,
    role_name,
    secret_name,
)
from components.aws_pool.pool_secret import artifacts_digest, pool_secret
from components.aws_pool.refresh import refresh_document, template_digest
from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority
from components.hosts.firewall import has_members
from components.hosts.program import HostProgram, secret_json
from components.hosts.realisation import HostRealisation
from components.hosts.ssh import NO_SECRETS
from components.node_pool.node_document import gate_document
from components.nomad.component import operator_secrets
from slipway.plan.aws import AwsInterface, AwsPlan
from slipway.plan.aws import AwsPool as PlannedPool
from slipway.plan.facts import pool_facts
from slipway.plan.platform import PlatformPlan, Pool

REFRESH_TIMEOUT_S = 14 * 24 * 3600  # AWS's own limit of an instance refresh
FABRIC = ("efa", "efa-only")


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsPoolArgs:
    plan: PlatformPlan
    aws: AwsPlan
    pool: Pool
    hosts: HostRealisation
    network: AwsNetwork
    bucket: AwsBucket
    authority: CertificateAuthority
    consul_seed: pulumi.Input[str]
    nomad_token: pulumi.Input[str]
    introducer: pulumi.Resource
    clusters_ready: list[pulumi.Resource]


class AwsPool(SlipwayComponent):
    """A launch template and an Auto Scaling group, with what an instance needs to join by itself: a
    role, a secret with the pool's certificate, a boot document in the bucket.

    Policies know it as a NodePool, as they do pools whose hosts are listed.

    Owns the bounds of the group and the template of its instances: those that run from an earlier
    one are replaced, a tenth at a time. What jobs run, certificates and keys reach running nodes
    through the pool's secret. Leaves alone how many instances there are between the bounds.
    Removing the pool ends its instances.

    Attribute: `ready` (for the pool's jobs to depend on).
    """

    def __init__(
        self, name: str, args: AwsPoolArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        self._args, self._planned = args, args.aws.pools[args.pool.name]
        self._environment, self._pool = args.plan.environment, args.pool.name
        super().__init__("NodePool", name, pool_facts(args.pool), opts)
        self._name = name
        started_by = [*self._boot(), self._secret()]
        group = self._group(self._template(self._profile()), started_by)
        # First, because a node of before may be one that can take up nothing any more.
        refreshed = self._refresh([group, *self._hooks(group)])
        self.ready: list[pulumi.Resource] = [self._gate([refreshed])]
        self.register_outputs({})

    def _boot(self) -> list[pulumi.Resource]:
        """The boot document, as an object that is named by its content: instances of earlier
        templates still find theirs."""
        args, pool = self._args, self._args.pool
        document = boot_document(
            args.plan, args.aws, pool, args.hosts.supervision, args.hosts.joining
        )
        self._text = as_text(document)
        stored = aws.s3.BucketObjectv2(
            f"{self._name}-boot",
            bucket=args.bucket.name,
            key=object_key(self._environment, pool.name, self._text),
            content=self._text,
            content_type="application/json",
            opts=pulumi.ResourceOptions.merge(
                self.child_options(depends_on=[args.bucket.filled]),
                pulumi.ResourceOptions(retain_on_delete=True),  # `down` empties the bucket
            ),
        )
        return [stored, args.bucket.filled]

    def _secret(self) -> aws.secretsmanager.SecretVersion:
        args = self._args
        secret = aws.secretsmanager.Secret(
            f"{self._name}-secret",
            name=secret_name(self._environment, self._pool),
            description=f"What nodes of pool {self._pool} must know to join",
            kms_key_id=args.aws.kms_key or None,
            recovery_window_in_days=0,  # it is made again, and its name must be free for that
            tags=self._named(),
            opts=self.child_options(),
        )
        certificate = args.authority.issue(identities.pool(args.plan, self._pool))
        known = pulumi.Output.all(seed=args.consul_seed, certificate=certificate)
        secrets = functools.partial(pool_secret, args.plan, self._pool, args.hosts.joining)
        return aws.secretsmanager.SecretVersion(
            f"{self._name}-secret-joining",
            secret_id=secret.id,
            secret_string=secret_json(known.apply(secrets)),
            # The clusters have a new gossip key before nodes read it.
            opts=self.child_options(depends_on=args.clusters_ready),
        )

    def _profile(self) -> aws.iam.InstanceProfile:
        role = aws.iam.Role(
            f"{self._name}-role",
            name=role_name(self._environment, self._pool),
            description=f"Nodes of pool {self._pool} of the Slipway environment"
            f" {self._environment}",
            assume_role_policy=json.dumps(assumed_by_instances(), sort_keys=True),
            tags=self._named(),
            opts=self.child_options(),
        )
        allowed = access.of_nodes(self._environment, self._args.aws, self._pool)
        policy = aws.iam.RolePolicy(
            f"{self._name}-role-nodes",
            name="nodes",
            role=role.name,
            policy=json.dumps(allowed, sort_keys=True),
            opts=self.child_options(),
        )
        return aws.iam.InstanceProfile(
            f"{self._name}-profile",
            name=role_name(self._environment, self._pool),
            role=role.name,
            tags=self._named(),
            opts=self.child_options(depends_on=[policy]),
        )

    def _template(self, profile: aws.iam.InstanceProfile) -> aws.ec2.LaunchTemplate:
        planned, args = self._planned, self._args
        text = user_data(
            self._environment, args.aws, self._pool, self._text, boot_programs(*OF_EVERY_INSTANCE)
        )
        self._digest = template_digest(args.aws, self._pool, text)
        return aws.ec2.LaunchTemplate(
            f"{self._name}-template",
            name=group_name(self._environment, self._pool),
            image_id=image_id(planned.image),
            instance_type=planned.instance,
            iam_instance_profile=aws.ec2.LaunchTemplateIamInstanceProfileArgs(name=profile.name),
            user_data=base64.b64encode(text.encode()).decode(),
            block_device_mappings=[
                aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                    device_name=planned.image.root_device,
                    ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                        **root_volume(size_gib=planned.root_gib, kms_key=args.aws.kms_key)
                    ),
                )
            ],
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(**METADATA_OPTIONS),
            network_interfaces=[self._interface(each) for each in planned.interfaces],
            placement=self._placement(),
            **_market(planned),
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(
                    resource_type=kind, tags=self._all_tags()
                )
                for kind in ("instance", "volume")
            ],
            tags=self._named(),
            opts=self.child_options(),
        )

    def _interface(self, each: AwsInterface) -> aws.ec2.LaunchTemplateNetworkInterfaceArgs:
        """Every interface with EFA, or over which members talk, is in the fabric's group, every one
        with an address in that of nodes. The group of instances chooses the subnet."""
        network = self._args.network
        groups = [network.group(NODES)] if each.kind != "efa-only" else []
        if each.kind in FABRIC or self._has_members:
            groups.append(network.group(fabric_group(self._pool)))
        return aws.ec2.LaunchTemplateNetworkInterfaceArgs(
            device_index=each.device,
            network_card_index=each.card,
            interface_type=None if each.kind == "interface" else each.kind,
            delete_on_termination="true",
            security_groups=groups,
        )

    def _placement(self) -> aws.ec2.LaunchTemplatePlacementArgs | None:
        """Close together for the fabric, or for members. A block of reserved instances is so by
        itself, and AWS takes no placement group for it."""
        fabric = any(each.kind in FABRIC for each in self._planned.interfaces)
        if not (fabric or self._has_members) or self._planned.market == "capacity_block":
            return None
        group = aws.ec2.PlacementGroup(
            f"{self._name}-placement",
            name=group_name(self._environment, self._pool),
            strategy="cluster",
            tags=self._named(),
            opts=self.child_options(),
        )
        return aws.ec2.LaunchTemplatePlacementArgs(group_name=group.name)

    @property
    def _has_members(self) -> bool:
        return has_members(self._args.plan, self._args.pool)

    def _group(
        self, template: aws.ec2.LaunchTemplate, started_by: list[pulumi.Resource]
    ) -> aws.autoscaling.Group:
        planned, pool, network = self._planned, self._args.pool, self._args.network
        options = self.child_options(
            depends_on=[*started_by, self._args.introducer], protect=self.protected
        )
        return aws.autoscaling.Group(
            f"{self._name}-group",
            name=group_name(self._environment, self._pool),
            min_size=pool.nodes_min,
            max_size=pool.nodes_max,
            desired_capacity=pool.nodes_min,
            launch_template=aws.autoscaling.GroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            vpc_zone_identifiers=[network.subnet("elastic", zone) for zone in planned.zones],
            capacity_rebalance=planned.market == "spot",
            health_check_type="EC2",
            wait_for_capacity_timeout="0",  # the gate waits, and says for what
            tags=[
                aws.autoscaling.GroupTagArgs(key=key, value=value, propagate_at_launch=False)
                for key, value in sorted(self._all_tags().items())
            ],
            opts=pulumi.ResourceOptions.merge(
                options, pulumi.ResourceOptions(ignore_changes=["desiredCapacity"])
            ),
        )

    def _hooks(self, group: aws.autoscaling.Group) -> list[pulumi.Resource]:
        """A new instance counts once it has joined, or else is replaced; one that is to end is
        waited for until it has left, or is silent."""
        heartbeat_s = lifecycle.heartbeat_s(self._args.plan, self._args.pool)
        return [
            aws.autoscaling.LifecycleHook(
                f"{self._name}-{each.name}",
                name=each.name,
                autoscaling_group_name=group.name,
                lifecycle_transition=each.transition,
                heartbeat_timeout=each.timeout_s,
                default_result=each.default_result,
                opts=self.child_options(),
            )
            for each in (lifecycle.joins(), lifecycle.leaves(heartbeat_s))
        ]

    def _gate(self, after: list[pulumi.Resource]) -> pulumi.Resource:
        """Enough nodes are there, and every one has what jobs run."""
        plan, pool = self._args.plan, self._args.pool
        secrets = pulumi.Output.secret(self._args.nomad_token).apply(operator_secrets)
        document = {
            **gate_document(plan, pool),
            "ready_timeout_s": lifecycle.JOINING_TIMEOUT_S,
            "artifacts": artifacts_digest(plan, pool.name),
        }
        return self._args.hosts.programs.run(
            HostProgram(
                bundle=plan.operator.bundle,
                script="nomad_nodes.py",
                document=document,
                secrets=secret_json(secrets),
                removes=False,
                timeout_s=lifecycle.JOINING_TIMEOUT_S,
            ),
            f"{self._name}-ready",
            self,
            depends_on=after,
        )

    def _refresh(self, after: list[pulumi.Resource]) -> pulumi.Resource:
        args = self._args
        return args.hosts.programs.run(
            HostProgram(
                bundle=args.plan.operator.bundle,
                script="refresh_nodes.py",
                document=refresh_document(self._environment, args.aws, self._pool, self._digest),
                secrets=pulumi.Output.from_input(NO_SECRETS),
                removes=False,
                timeout_s=REFRESH_TIMEOUT_S,
            ),
            f"{self._name}-refreshed",
            self,
            depends_on=after,
        )

    def _named(self) -> Mapping[str, str]:
        return {"Name": f"{self._environment} {self._pool}"}

    def _all_tags(self) -> Mapping[str, str]:
        """Those of the provider, too, which it does not add inside a template."""
        own = {"slipway:environment": self._environment, "slipway:pool": self._pool}
        return {**self._args.aws.tags, **own, **self._named()}


def _market(planned: PlannedPool) -> dict[str, Any]:
    """A reservation that is targeted sets no market type, a block does (gpu-fleets: AWS refuses
    other shapes at launch)."""
    shape: dict[str, Any] = {}
    types = {"spot": "spot", "capacity_block": "capacity-block"}
    if planned.market in types:
        shape["instance_market_options"] = aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(
            market_type=types[planned.market]
        )
    if planned.reservation:
        target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs
        shape["capacity_reservation_specification"] = (
            aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
                capacity_reservation_target=target(capacity_reservation_id=planned.reservation)
            )
        )
    return shape
