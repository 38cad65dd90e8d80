"""The interface endpoints of an environment on AWS, each with who calls it."""

from __future__ import annotations

from collections.abc import Mapping

OF_ALL = {"secretsmanager": "hosts fetch their own secrets"}
OF_ELASTIC_POOLS = {
    "sts": "Nomad servers have it confirm who a new node is",
    "autoscaling": "nodes say that they are ready to be terminated",
}


def interface_endpoints(egress: str, *, elastic: bool) -> Mapping[str, str]:
    """Service -> who calls it; `elastic` is whether there are elastic pools. S3 has a gateway
    endpoint, which costs nothing; none is needed where a NAT gateway leads to AWS's own addresses.
    """
    if egress != "endpoints":
        return {}
    return {**OF_ALL, **(OF_ELASTIC_POOLS if elastic else {})}
