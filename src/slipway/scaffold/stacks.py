"""The text of a new stack file, without models: `scaffold.text.with_entry` adds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml.comments import CommentedMap

from .comments import ABOVE, stack_title
from .text import block, document, one_line

PROCESSORS = "cpu"  # the names of pools, as in the environments of this checkout
EDGE = "edge"
KNOWN_HOSTS = "known_hosts"
HOSTS_ON_A_LINE = 1
EDGE_MEMORY, EDGE_CORES = "2GiB", 2  # of a gateway's host


@dataclass(frozen=True, slots=True, kw_only=True)
class DevAnswers:
    """`salt` is that of the passphrase which all environments of this machine share."""

    name: str
    network: str
    nodes: int
    salt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    name: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalAnswers:
    """`memory` ("64GiB") and `cores` are what one of the `hosts` offers; so are its accelerators,
    whose key in the catalog is `accelerator`."""

    name: str
    network: str
    servers: Sequence[Host]
    hosts: Sequence[Host]
    gateways: Sequence[Host]
    memory: str
    cores: int
    accelerator: str = ""
    accelerators_per_node: int = 0
    usd_per_hour: float | None = None
    ssh_key: str = ""
    ssh_user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bought:
    """A pool of instances that grows from `least` to `most`. Those with EFA are `in_one_zone`:
    `zone`, or the first one of the environment where it is ""."""

    name: str
    instance: str
    least: int
    most: int
    zone: str = ""
    in_one_zone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Where an environment is built; without it, it can only be planned."""

    region: str
    zones: Sequence[str]
    hosts_image: str
    nvidia_image: str
    bucket: str
    authorized_keys: Sequence[str]
    clients: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsAnswers:
    name: str
    network: str
    pools: Sequence[Bought]
    edge_instance: str
    cloud: Cloud | None = None


Answers = DevAnswers | MetalAnswers | AwsAnswers


def stack_text(answers: Answers) -> str:
    if isinstance(answers, DevAnswers):
        return _dev(answers)
    return _metal(answers) if isinstance(answers, MetalAnswers) else _aws(answers)


def _dev(answers: DevAnswers) -> str:
    pools = {
        PROCESSORS: {"kind": "local", "nodes": answers.nodes, "slot": 1},
        EDGE: {"kind": "local", "nodes": 1, "memory": EDGE_MEMORY, "slot": 2},
    }
    config = _config("dev", answers.network, {"pools": _pools(pools)})
    salt = {"encryptionsalt": answers.salt} if answers.salt else {}
    return document(block({"config": config, **salt}), stack_title(answers.name, "dev"))


def _metal(answers: MetalAnswers) -> str:
    ssh: dict[str, Any] = {"known_hosts": KNOWN_HOSTS}
    ssh |= {"user": answers.ssh_user} if answers.ssh_user else {}
    ssh |= {"key": answers.ssh_key} if answers.ssh_key else {}
    worker: dict[str, Any] = {"kind": "metal"}
    if answers.accelerator:
        worker["accelerator"] = answers.accelerator
        worker["accelerators_per_node"] = answers.accelerators_per_node
    worker |= {"hosts": _hosts(answers.hosts), "memory": answers.memory, "cpu": answers.cores}
    if answers.usd_per_hour is not None:
        worker["usd_per_hour"] = answers.usd_per_hour
    edge = {
        "kind": "metal",
        "hosts": _hosts(answers.gateways),
        "memory": EDGE_MEMORY,
        "cpu": EDGE_CORES,
    }
    name = answers.accelerator.lower() or PROCESSORS
    settings: dict[str, Any] = {"ssh": one_line(ssh)}
    if len(answers.servers) > 1:
        settings["servers"] = len(answers.servers)
    settings |= {
        "server_hosts": [one_line(each) for each in _hosts(answers.servers)],
        "pools": _pools({name: worker, EDGE: edge}),
        "gateway": one_line({"pool": EDGE}),
    }
    config = _config("metal", answers.network, settings)
    return document(block({"config": config}), stack_title(answers.name, "metal"))


def _aws(answers: AwsAnswers) -> str:
    pools: dict[str, Any] = {
        EDGE: {"kind": "aws", "instance": answers.edge_instance, "nodes": 2},
        **{each.name: _instances(each, answers.cloud) for each in answers.pools},
    }
    settings: dict[str, Any] = {"servers": 3}
    if answers.cloud is not None:
        settings["aws"] = _cloud(answers.cloud)
        ssh = {"known_hosts": KNOWN_HOSTS, "jump": {"via": "ec2-instance-connect"}}
        settings["ssh"] = one_line(ssh)
    settings |= {"pools": _pools(pools), "gateway": one_line({"pool": EDGE})}
    config = _config("aws", answers.network, settings)
    return document(block({"config": config}), stack_title(answers.name, "aws"))


def _instances(pool: Bought, cloud: Cloud | None) -> dict[str, Any]:
    nodes = {"min": pool.least, "max": pool.most}
    values: dict[str, Any] = {"kind": "aws", "instance": pool.instance, "nodes": nodes}
    zone = pool.zone or (cloud.zones[0] if cloud and pool.in_one_zone else "")
    return {**values, "zone": zone} if zone else values


def _cloud(cloud: Cloud) -> CommentedMap:
    images = {"hosts": cloud.hosts_image}
    images |= {"nvidia": cloud.nvidia_image} if cloud.nvidia_image else {}
    values: dict[str, Any] = {
        "region": cloud.region,
        "zones": list(cloud.zones),
        "images": images,
        "bucket": cloud.bucket,
        "authorized_keys": list(cloud.authorized_keys),
    }
    if cloud.clients:
        values["load_balancer"] = {"clients": list(cloud.clients)}
    made = block(dict(one_line(values)))
    _comment_above(made, indent=4)
    return made


def _config(target: str, network: str, settings: Mapping[str, Any]) -> CommentedMap:
    named = {"target": target, "network": one_line({"cidr": network}), **settings}
    made = block({f"slipway:{key}": value for key, value in {**named, "models": {}}.items()})
    _comment_above(made, indent=2)
    return made


def _comment_above(values: CommentedMap, *, indent: int) -> None:
    for key in values:
        if text := ABOVE.get(key):
            values.yaml_set_comment_before_after_key(key, before=text, indent=indent)


def _pools(pools: Mapping[str, Mapping[str, Any]]) -> CommentedMap:
    return block({name: _pool(pool) for name, pool in pools.items()})


def _pool(pool: Mapping[str, Any]) -> CommentedMap:
    """On one line, unless it lists many hosts."""
    hosts = pool.get("hosts", ())
    if len(hosts) <= HOSTS_ON_A_LINE:
        return one_line(pool)
    return block({**pool, "hosts": [one_line(each) for each in hosts]})


def _hosts(hosts: Sequence[Host]) -> list[dict[str, str]]:
    return [{"name": each.name, "address": each.address} for each in hosts]
