"""The user data of a fixed host: who may log in, and how it fetches its own SSH host key. Pure.

It contains no secret, and nothing that an edit of the files changes: a machine stops when its user
data is changed. Everything else reaches the host over SSH.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from components.aws_hosts.access import secret_name
from components.aws_machine.cloud_config import at_home, cloud_config, oneshot_unit
from slipway.plan.aws import AwsPlan

OF_FIXED_HOSTS = (  # of services/aws
    "host_key.py",
    "instance/__init__.py",
    "instance/metadata.py",
    "instance/refusal.py",
    "instance/secrets.py",
    "instance/signing.py",
)
SCHEMA_VERSION = 1  # schemas/host-key.schema.json
DOCUMENT = "/etc/slipway-host-key.json"
UNIT = "slipway-host-key.service"


def user_data(environment: str, aws: AwsPlan, host: str, programs: Mapping[str, str]) -> str:
    """`programs`: the files of services/aws that a host has, by their paths there."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "region": aws.region,
        "secret": secret_name(environment, host),
    }
    return cloud_config(
        files={DOCUMENT: json.dumps(document, sort_keys=True) + "\n", **at_home(programs)},
        unit=UNIT,
        content=oneshot_unit(
            "The SSH host key of this host, from AWS Secrets Manager", "host_key.py", DOCUMENT
        ),
        hostname=host,
        preserve_hostname=False,
        disable_root=False,
        # No other user: a list without "default" replaces the image's own.
        users=[{"name": "root", "ssh_authorized_keys": list(aws.authorized_keys)}],
        ssh_pwauth=False,
        ssh_genkeytypes=["ed25519"],
    )
