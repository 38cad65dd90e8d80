"""The program of test_official_aws_plugin.py: what AWS's plugin creates of an environment, but for
its fixed hosts and what moto lacks (placement groups, EC2 Instance Connect endpoints)."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from components import naming
from components.aws_bucket.component import AwsBucket, AwsBucketArgs
from components.aws_network.component import AwsNetwork, AwsNetworkArgs
from components.aws_pool.component import AwsPool, AwsPoolArgs
from components.base import SlipwayComponent
from components.certificates.component import CertificateAuthority, CertificateAuthorityArgs
from components.hosts.program import HostProgram
from components.hosts.realisation import HostRealisation
from components.hosts.supervision import Systemd
from components.joining.introduction import Introduction
from slipway.plan.platform import PlatformPlan
from tests.components.aws_environments import aws_plan

VARIANT = "an elastic pool"
SERVICES = ("autoscaling", "ec2", "iam", "kms", "s3", "secretsmanager", "ssm", "sts")
SEED, TOKEN = "a seed", "a token"


class NoPrograms:
    """components.hosts.program.Hosts without hosts: a run is this component, which does nothing."""

    def __init__(self) -> None:
        self.nothing = pulumi.ComponentResource("slipway:test:Nothing", "programs")

    def run(
        self,
        program: HostProgram,
        name: str,
        parent: SlipwayComponent,
        *,
        on: str = "",
        depends_on: Sequence[pulumi.Resource] = (),
    ) -> pulumi.Resource:
        return self.nothing

    def preparation(self, host: str, parent: SlipwayComponent) -> Sequence[pulumi.Resource]:
        return ()


def provider(plan: PlatformPlan, endpoint: str) -> aws.Provider:
    """That of stacks/targets/aws.py, with moto in place of AWS."""
    assert plan.aws is not None
    return aws.Provider(
        "aws",
        region=plan.aws.region,
        access_key="operator",
        secret_key="operator",
        endpoints=[aws.ProviderEndpointArgs(**dict.fromkeys(SERVICES, endpoint))],
        skip_credentials_validation=True,
        skip_metadata_api_check=True,
        skip_region_validation=True,
        skip_requesting_account_id=True,
        s3_use_path_style=True,
        default_tags=aws.ProviderDefaultTagsArgs(
            tags={**plan.aws.tags, "slipway:environment": plan.environment}
        ),
    )


def build(endpoint: str) -> None:
    """Registers the resources. Nothing is protected, so that `destroy` may delete it."""
    plan = aws_plan(VARIANT)
    assert plan.aws is not None
    programs = NoPrograms()
    hosts = HostRealisation(
        programs=programs,
        supervision=Systemd(),
        joining=Introduction(plan),
        changed_at_once=1,
    )
    in_aws = pulumi.ResourceOptions(providers=[provider(plan, endpoint)])
    network = AwsNetwork("network", AwsNetworkArgs(plan=plan, aws=plan.aws), opts=in_aws)
    bucket = AwsBucket(
        "bucket", AwsBucketArgs(plan=plan, aws=plan.aws, programs=programs), opts=in_aws
    )
    authority = CertificateAuthority("authority", CertificateAuthorityArgs(plan=plan, hosts=hosts))
    for pool in plan.aws.pools:
        AwsPool(
            naming.pool(pool),
            AwsPoolArgs(
                plan=plan,
                aws=plan.aws,
                pool=plan.pool(pool),
                hosts=hosts,
                network=network,
                bucket=bucket,
                authority=authority,
                consul_seed=SEED,
                nomad_token=TOKEN,
                introducer=programs.nothing,
                clusters_ready=[],
            ),
            opts=in_aws,
        )
