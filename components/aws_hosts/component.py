"""AwsHosts: the fixed hosts of an environment on AWS, as instances with known addresses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws_hosts import access
from components.aws_hosts.host_keys import both_files, public_key
from components.aws_hosts.user_data import OF_FIXED_HOSTS, user_data
from components.aws_machine.access import assumed_by_instances
from components.aws_machine.programs import boot_programs
from components.aws_machine.template import METADATA_OPTIONS, image_id, root_volume
from components.aws_network.component import AwsNetwork
from components.aws_network.security_groups import GATEWAY, NODES, SERVERS
from components.base import SlipwayComponent
from slipway.plan.aws import AwsHost, AwsPlan
from slipway.plan.platform import PlatformPlan

SEED = "host_key_seed"
NOT_MADE = "not made yet"  # the seed, in a preview before the first `up`
# A change of these would stop or replace a host. One that is replaced on purpose gets the new ones.
KEPT = ["launchTemplate", "userData"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsHostsArgs:
    plan: PlatformPlan
    aws: AwsPlan
    network: AwsNetwork


class AwsHosts(SlipwayComponent):
    """An instance, a role and a secret per fixed host.

    Owns the machines and their volumes, and the secrets that have the SSH host keys. Leaves alone
    what runs on them, and the image and user data of a host that exists: an instance type that
    changes stops the machine and starts it again. Replacing an instance loses its volume; the new
    machine has the same name, address and SSH host key, and joins as on `metal`.

    Attribute: `reachable` (by host, what has to be there before it can be reached).
    """

    def __init__(
        self, name: str, args: AwsHostsArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("AwsHosts", name, {"hosts": sorted(args.aws.hosts)}, opts)
        self._args, self._environment = args, args.plan.environment
        self._kept = self.child_options(protect=self.protected)
        self._seed = _seed(self._environment)
        self._addresses = {
            **{server.name: server.address for server in args.plan.servers},
            **{node.name: node.address for pool in args.plan.pools for node in pool.hosts},
        }
        self._groups = _groups(args.plan)
        self._programs = boot_programs(*OF_FIXED_HOSTS)
        way_in = [args.network.way_in] if args.network.way_in else []
        self.reachable: dict[str, list[pulumi.Resource]] = {
            host: [self._instance(host, planned), *way_in]
            for host, planned in args.aws.hosts.items()
        }
        self.register_outputs({})

    def _instance(self, host: str, planned: AwsHost) -> aws.ec2.Instance:
        secret, profile = self._secret(host), self._profile(host)
        network = self._args.network
        template = self._template(host, planned)
        return aws.ec2.Instance(
            f"host-{host}",
            launch_template=aws.ec2.InstanceLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            instance_type=planned.instance,
            subnet_id=network.subnet("hosts", planned.zone),
            private_ip=self._addresses[host],
            associate_public_ip_address=False,
            vpc_security_group_ids=[network.group(self._groups[host])],
            iam_instance_profile=profile.name,
            user_data=user_data(self._environment, self._args.aws, host, self._programs),
            tags=self._named(host),
            opts=pulumi.ResourceOptions.merge(
                self._kept,
                pulumi.ResourceOptions(depends_on=[secret], ignore_changes=KEPT),
            ),
        )

    def _template(self, host: str, planned: AwsHost) -> aws.ec2.LaunchTemplate:
        """The template resolves a parameter to its image, and names the root volume, which an
        instance alone can only describe once the image is known."""
        return aws.ec2.LaunchTemplate(
            f"template-{host}",
            name=f"slipway-{self._environment}-{host}",
            image_id=image_id(planned.image),
            block_device_mappings=[
                aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                    device_name=planned.image.root_device,
                    ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                        **root_volume(size_gib=planned.root_gib, kms_key=self._args.aws.kms_key)
                    ),
                )
            ],
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(**METADATA_OPTIONS),
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(
                    resource_type="volume", tags=self._all_tags(host)
                )
            ],
            tags=self._named(host),
            opts=self.child_options(),
        )

    def _secret(self, host: str) -> aws.secretsmanager.SecretVersion:
        environment = self._environment
        secret = aws.secretsmanager.Secret(
            f"secret-{host}",
            name=access.secret_name(environment, host),
            description=f"The SSH host key of {host}",
            kms_key_id=self._args.aws.kms_key or None,
            recovery_window_in_days=0,  # it is derived, and its name must be free for another `up`
            tags=self._named(host),
            opts=self.child_options(),
        )

        key: pulumi.Output[str] = pulumi.Output.secret(
            self._seed.apply(lambda seed: self._key(seed, host))
        )
        return aws.secretsmanager.SecretVersion(
            f"secret-{host}-key",
            secret_id=secret.id,
            secret_string=key,
            opts=self.child_options(),
        )

    def _key(self, seed: str, host: str) -> str:
        """What services/aws/host_key.py reads, and operators already know the host by."""
        environment, ssh = self._environment, self._args.plan.ssh
        public = public_key(seed, environment, host)
        if ssh and seed != NOT_MADE and ssh.hosts[host].host_key not in ("", public):
            raise pulumi.RunError(
                f"{ssh.known_hosts} has another public key of {host} than the one that follows from"
                f" slipway:{SEED} in Pulumi.{environment}.yaml\n"
                "fix: restore both files from one commit"
            )
        return both_files(seed, environment, host)

    def _profile(self, host: str) -> aws.iam.InstanceProfile:
        environment = self._environment
        role = aws.iam.Role(
            f"role-{host}",
            name=access.role_name(environment, host),
            description=f"{host} of the Slipway environment {environment}",
            assume_role_policy=json.dumps(assumed_by_instances(), sort_keys=True),
            tags=self._named(host),
            opts=self.child_options(),
        )
        allowed = access.own_secret(environment, self._args.aws, host)
        policy = aws.iam.RolePolicy(
            f"role-{host}-own-secret",
            name="own-secret",
            role=role.name,
            policy=json.dumps(allowed, sort_keys=True),
            opts=self.child_options(),
        )
        return aws.iam.InstanceProfile(
            f"profile-{host}",
            name=f"slipway-{environment}-{host}",
            role=role.name,
            tags=self._named(host),
            opts=self.child_options(depends_on=[policy]),
        )

    def _named(self, host: str) -> Mapping[str, str]:
        return {"Name": f"{self._environment} {host}"}

    def _all_tags(self, host: str) -> Mapping[str, str]:
        """Those of the provider, too, which it does not add inside a template."""
        own = {"slipway:environment": self._environment}
        return {**self._args.aws.tags, **own, **self._named(host)}


def _groups(plan: PlatformPlan) -> dict[str, str]:
    """Each host's security group."""
    groups = {server.name: SERVERS for server in plan.servers}
    for pool in plan.pools:
        group = GATEWAY if pool.name == plan.monitoring.pool else NODES
        groups |= {node.name: group for node in pool.hosts}
    return groups


def _seed(environment: str) -> pulumi.Output[str]:
    """Made by `slipway up` before it runs this program; a preview may come before that."""
    seed = pulumi.Config("slipway").get_secret(SEED)
    if seed is not None:
        return seed
    if pulumi.runtime.is_dry_run():
        return pulumi.Output.secret(NOT_MADE)
    raise pulumi.RunError(
        f"Pulumi.{environment}.yaml: slipway:{SEED} is missing: the SSH host keys of fixed hosts"
        f" are derived from it\nfix: slipway up -s {environment}, which makes it"
    )
