"""The user data of a fixed host: who may log in, and how it fetches its own SSH host key. Pure.

It contains no secret, and nothing that an edit of the files changes: a machine stops when its user
data is changed. Everything else reaches the host over SSH.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from components.aws_hosts.access import secret_name
from slipway.plan.aws import AwsPlan

HEADER = "#cloud-config\n"  # of a YAML document, and JSON is YAML
LIMIT_BYTES = 16_384  # Amazon EC2 User Guide, "Run commands when you launch an EC2 instance"
SCHEMA_VERSION = 1  # of the program's document
FOLDER = "/usr/local/lib/slipway"
DOCUMENT = "/etc/slipway-host-key.json"
UNIT = "slipway-host-key.service"


def user_data(environment: str, aws: AwsPlan, host: str, programs: Mapping[str, str]) -> str:
    """`programs`: the files of services/aws that a host has, by their paths there."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "region": aws.region,
        "secret": secret_name(environment, host),
    }
    configuration = {
        "hostname": host,
        "preserve_hostname": False,
        "disable_root": False,
        # No other user: a list without "default" replaces the image's own.
        "users": [{"name": "root", "ssh_authorized_keys": list(aws.authorized_keys)}],
        "ssh_pwauth": False,
        "ssh_genkeytypes": ["ed25519"],
        "write_files": [
            _file(DOCUMENT, json.dumps(document, sort_keys=True) + "\n"),
            *(_file(f"{FOLDER}/{path}", text) for path, text in sorted(programs.items())),
            _file(f"/etc/systemd/system/{UNIT}", _unit()),
        ],
        "runcmd": [["systemctl", "enable", "--now", "--no-block", UNIT]],
    }
    return HEADER + json.dumps(configuration, indent=1, sort_keys=True) + "\n"


def _file(path: str, content: str) -> dict[str, Any]:
    return {"path": path, "content": content, "permissions": "0644"}


def _unit() -> str:
    """Starts again until it succeeds: a role reaches an instance some seconds after its start."""
    return (
        "[Unit]\n"
        "Description=The SSH host key of this host, from AWS Secrets Manager\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "StartLimitIntervalSec=0\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart=/usr/bin/python3 {FOLDER}/host_key.py {DOCUMENT}\n"
        "Restart=on-failure\n"
        "RestartSec=5\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )
