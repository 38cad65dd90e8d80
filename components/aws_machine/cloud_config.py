"""User data in the form of cloud-init: files, and the unit that runs a program of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

HEADER = "#cloud-config\n"  # of a YAML document, and JSON is YAML
LIMIT_BYTES = 16_384  # Amazon EC2 User Guide, "Run commands when you launch an EC2 instance"
FOLDER = "/usr/local/lib/slipway"  # on the host, of programs of services/aws


def cloud_config(*, files: Mapping[str, str], unit: str, content: str, **settings: Any) -> str:
    """`content` is that of the `unit`, which is started at once and at every boot; `settings` are
    further ones of cloud-init."""
    configuration = {
        **settings,
        "write_files": [
            {"path": path, "content": text, "permissions": "0644"}
            for path, text in (*sorted(files.items()), (f"/etc/systemd/system/{unit}", content))
        ],
        "runcmd": [["systemctl", "enable", "--now", "--no-block", unit]],
    }
    return HEADER + json.dumps(configuration, sort_keys=True, separators=(",", ":")) + "\n"


def oneshot_unit(description: str, program: str, document: str) -> str:
    """A unit that starts again until it succeeds: a role reaches an instance some seconds after its
    start."""
    return _unit(description, "oneshot", program, document)


def service_unit(description: str, program: str, document: str) -> str:
    """A unit that runs until it has nothing left to do, and starts again when it fails."""
    return _unit(description, "exec", program, document)


def _unit(description: str, kind: str, program: str, document: str) -> str:
    return (
        "[Unit]\n"
        f"Description={description}\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "StartLimitIntervalSec=0\n"
        "\n"
        "[Service]\n"
        f"Type={kind}\n"
        f"ExecStart=/usr/bin/python3 {FOLDER}/{program} {document}\n"
        "Restart=on-failure\n"
        "RestartSec=5\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def at_home(programs: Mapping[str, str]) -> dict[str, str]:
    """Programs of services/aws, by their paths on the host."""
    return {f"{FOLDER}/{path}": text for path, text in programs.items()}
