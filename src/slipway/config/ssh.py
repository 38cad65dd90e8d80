"""How hosts are reached over SSH, and the public keys that identify them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from .base import Settings, invalid

Port = Annotated[int, Field(ge=1, le=65535)]
# In the order of preference, as OpenSSH has it.
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")
LOOPBACK = IPv4Network("127.0.0.0/8")


def _on_loopback(value: str) -> str:
    try:
        inside = IPv4Address(value) in LOOPBACK
    except ValueError:
        inside = False
    if not inside:
        raise invalid(
            f"must be an address of the loopback network {LOOPBACK}", fix="write e.g. 127.200.0.1"
        )
    return value


class JumpSettings(Settings):
    """The one host through which the others are reached."""

    EXAMPLE = "{host: bastion.example.com, user: ops}"
    host: str
    user: str = "root"
    port: Port = 22


class ConnectSettings(Settings):
    """Hosts on AWS are reached through EC2 Instance Connect, by the AWS command line of the
    operator's machine and with its credentials."""

    EXAMPLE = "{via: ec2-instance-connect}"
    via: Literal["ec2-instance-connect"]


def _kind_of_jump(value: Any) -> str:
    via = isinstance(value, ConnectSettings) or (isinstance(value, Mapping) and "via" in value)
    return "via" if via else "host"


Jump = Annotated[
    Annotated[JumpSettings, Tag("host")] | Annotated[ConnectSettings, Tag("via")],
    Discriminator(_kind_of_jump),
]


class SshSettings(Settings):
    """`key` is a file of the operator's machine; without it, the keys of the running ssh-agent are
    used. `known_hosts` is a file of the checkout with every host's public key. `local_address` is
    the loopback address at which the operator's machine finds the clusters; without it, it follows
    from the environment's name."""

    EXAMPLE = "{known_hosts: known_hosts, key: ~/.ssh/id_ed25519}"
    known_hosts: str
    user: str = "root"
    port: Port = 22
    key: str | None = None
    jump: Jump | None = None
    local_address: Annotated[str, AfterValidator(_on_loopback)] | None = None


class HostSshSettings(Settings):
    """Settings of one host that override SshSettings."""

    EXAMPLE = "{user: ops, port: 2222}"
    user: str | None = None
    port: Port | None = None
    key: str | None = None


def read_host_keys(path: Path) -> Mapping[str, str]:
    """Name or address -> public key ("ssh-ed25519 AAAA…"), from a file in OpenSSH's format.

    Empty without the file: an environment can be planned before its hosts exist. Lines with hashed
    names (ssh-keyscan -H) are skipped.
    """
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    keys = _by_name(lines)
    return {
        name: next(found[kind] for kind in (*KEY_TYPES, *found) if kind in found)
        for name, found in keys.items()
    }


def _by_name(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Name -> type of key -> key."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        fields = line.split()
        if len(fields) < 3 or line.startswith(("#", "@", "|")):
            continue
        names, kind, key, *_ = fields
        for name in names.split(","):
            found.setdefault(name, {}).setdefault(kind, f"{kind} {key}")
    return found
