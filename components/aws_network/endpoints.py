"""The interface endpoints of an environment, each with who calls it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.plan.aws import AwsPlan

OF_ALL = {"secretsmanager": "hosts fetch their own secrets"}
OF_ELASTIC_POOLS = {
    "sts": "Nomad servers have it confirm who a new node is",
    "autoscaling": "nodes say that they are ready to be terminated",
}


def interface_endpoints(aws: AwsPlan) -> Mapping[str, str]:
    """Service -> who calls it. S3 has a gateway endpoint, which costs nothing; none is needed where
    a NAT gateway leads to AWS's own addresses."""
    if aws.egress != "endpoints":
        return {}
    return {**OF_ALL, **(OF_ELASTIC_POOLS if aws.pools else {})}
