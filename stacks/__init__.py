"""Builds the components of a plan for each target."""

from components.provider_sdks import load_on_use

load_on_use("pulumi_consul", "pulumi_nomad", "pulumi_aws")
load_on_use(
    *(f"pulumi_aws.{each}" for each in ("ec2", "vpc", "iam", "secretsmanager", "autoscaling"))
)
load_on_use(*(f"pulumi_aws.{each}" for each in ("lb", "ec2transitgateway", "s3")))
