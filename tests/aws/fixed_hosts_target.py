"""The target aws of bed_target.py, whose fixed hosts are made by `up`, too. A checkout of the bed
has this file as stacks/targets/aws.py, and that one as stacks/targets/bed_pools.py.

The user data of each host becomes a file, from which the bed boots the machine.
"""

from __future__ import annotations

import dataclasses
import json

import pulumi
import pulumi_command as command

from components.aws_hosts.access import own_secret, role_name, secret_name
from components.aws_hosts.host_keys import both_files
from components.aws_hosts.user_data import OF_FIXED_HOSTS, user_data
from components.aws_machine.access import assumed_by_instances
from components.aws_machine.programs import boot_programs
from components.base import SlipwayComponent
from components.hosts.realisation import HostRealisation
from components.hosts.ssh import SshHosts
from slipway.plan.platform import PlatformPlan
from stacks.targets import bed_pools


def hosts(plan: PlatformPlan, platform: SlipwayComponent) -> HostRealisation:
    assert plan.aws is not None
    machines = {host: [machine(plan, host, platform)] for host in plan.aws.hosts}
    known = bed_pools.hosts(plan, platform)
    reached = dataclasses.replace(known, programs=SshHosts(plan, machines=machines))
    return dataclasses.replace(reached, elastic=bed_pools.BedPools(plan, reached, platform))


def machine(plan: PlatformPlan, host: str, platform: SlipwayComponent) -> pulumi.Resource:
    environment, aws = plan.environment, plan.aws
    assert aws is not None
    seed = pulumi.Config("slipway").require_secret("host_key_seed")
    return command.local.Command(
        f"host-{host}",
        create='exec "$BED_PYTHON" "$BED_FIXED_HOSTS"',
        environment={
            "BED_HOST": host,
            "BED_ROLE": role_name(environment, host),
            "BED_TRUST": json.dumps(assumed_by_instances(), sort_keys=True),
            "BED_POLICY": json.dumps(own_secret(environment, aws, host), sort_keys=True),
            "BED_SECRET": secret_name(environment, host),
            "BED_USER_DATA": user_data(environment, aws, host, boot_programs(*OF_FIXED_HOSTS)),
        },
        stdin=seed.apply(lambda value: both_files(value, environment, host)),
        opts=platform.child_options(),
    )


TARGET = dataclasses.replace(bed_pools.TARGET, hosts=hosts)
