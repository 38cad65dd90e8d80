"""The document of a host's delivery (schemas/delivery.schema.json): its artifacts from the
operator's cache, and how the host is reached."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from components.hosts import artifacts
from slipway.plan.platform import Node, PlatformPlan, SshHost, SshPlan

DELIVERY_SCHEMA_VERSION = 1
PYTHON = (3, 11)  # of the environments in the operator's cache
# Others that hosts may have: what they run, but for engines, has packages of its own for each.
OTHER_PYTHONS = ("3.10", "3.12")
SSH_PORT = 22
BOOTS_WITHIN_S = 900  # a machine that was created just before
MEBIBYTE = 1 << 20
CACHE = "/opt/slipway"  # on a host, for all environments


def run_folder(environment: str) -> str:
    """The folder on a host for its agents' data and the snapshots."""
    return f"/var/lib/slipway/{environment}"


def scratch_folder(environment: str) -> str:
    """The folder on a host in memory: its files are gone after a reboot."""
    return f"/run/slipway/{environment}"


def delivery_document(plan: PlatformPlan, ssh: SshPlan, host: str) -> dict[str, Any]:
    """schemas/delivery.schema.json"""
    node = artifacts.node_named(plan, host)
    packages = artifacts.packages(plan, node)
    return {
        "schema_version": DELIVERY_SCHEMA_VERSION,
        "environment": plan.environment,
        "host": host,
        "ssh": way_to(ssh, host),
        "folder": CACHE,
        "python": list(PYTHON),
        "artifacts": list(artifacts.of_host(plan, host)),
        **({"packages": packages} if packages else {}),
        **({"boots_within_s": BOOTS_WITHIN_S} if ssh.makes_host_keys else {}),
        **_accelerators(plan, node),
        **_model_store(plan, node),
        **_image(plan, node),
    }


def _accelerators(plan: PlatformPlan, node: Node | None) -> dict[str, Any]:
    """What the drivers of a node must show, where its pool has accelerators."""
    pool = None if node is None else plan.pool(node.pool)
    if pool is None or pool.device_plugin is None:
        return {}
    drivers = [model.replica.driver for model in plan.models if model.pool == pool.name]
    return {
        "accelerators": {
            "vendor": pool.device_plugin.vendor,
            "count": pool.accelerators_per_node,
            "names": list(pool.accelerator_names),
            "memory_mib": pool.accelerator_memory_bytes // MEBIBYTE,
            "driver": max(drivers, key=_version, default=""),
        }
    }


def _model_store(plan: PlatformPlan, node: Node | None) -> dict[str, Any]:
    """The disk on which a node keeps the weights that it fetches, where its pool names one."""
    store = None if node is None else plan.pool(node.pool).model_store
    if store is None or not store.path:
        return {}
    return {"model_store": {"path": store.path, "size_bytes": store.size_bytes}}


def _image(plan: PlatformPlan, node: Node | None) -> dict[str, Any]:
    """The image in which a node's engines run, where they do not run bare."""
    pool = None if node is None else plan.pool(node.pool)
    if pool is None or pool.image is None:
        return {}
    return {
        "image": {
            "name": pool.image.name,
            "archive": pool.image.archive,
            "vendor": "" if pool.device_plugin is None else pool.device_plugin.vendor,
            "environments": list(artifacts.of_image(plan, pool)),
        }
    }


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part)


def key_scan(hosts: Iterable[SshHost], known_hosts: str) -> str:
    """How a person gets the public keys of hosts: OpenSSH's program asks those of one port."""
    by_port: dict[int, set[str]] = {}
    for host in hosts:
        by_port.setdefault(host.port, set()).add(host.address)
    commands = [
        f"ssh-keyscan {'' if port == SSH_PORT else f'-p {port} '}-t ed25519"
        f" {' '.join(sorted(addresses))} >> {known_hosts}"
        for port, addresses in sorted(by_port.items())
    ]
    return f"{'; '.join(commands)}, and compare each key with the one on the host's console"


def way_to(ssh: SshPlan, host: str) -> dict[str, Any]:
    """The part of a document that says how a host is reached: services/operator/delivery/ssh.py."""
    return {
        **dataclasses.asdict(ssh.hosts[host]),
        "jump": dataclasses.asdict(ssh.jump) if ssh.jump else None,
    }
