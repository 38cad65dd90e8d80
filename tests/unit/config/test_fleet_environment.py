from __future__ import annotations

from typing import Any

import pytest

from slipway.config.dev import DevSettings
from slipway.config.environment import parse_environment
from slipway.config.errors import ConfigError, Problem
from slipway.config.files import deployed_models, load_environment, load_models
from slipway.config.fleet import FleetSettings
from slipway.inputs import load_inputs
from tests.unit.config.checkout import ROOT

VALUES: dict[str, Any] = {
    "target": "aws",
    "network": {"cidr": "10.40.0.0/16"},
    "pools": {
        "h100": {"kind": "aws", "instance": "p5.48xlarge", "nodes": {"min": 1, "max": 2}},
        "l4": {"kind": "aws", "instance": "g6.xlarge", "nodes": {"max": 4}},
    },
    "models": {"chat": {"pools": ["h100", "l4"], "replicas": {"min": 1, "max": 2}}},
    "gateway": {"pool": "l4"},
}
HOST = {"name": "rack1", "address": "10.40.0.11"}
CPU = {"kind": "metal", "nodes": 2, "memory": "64GiB", "cpu": 32}
TWIN = {"nodes": None, "hosts": [HOST | {"name": "other"}]}
METAL = {
    "kind": "metal",
    "accelerator": "H100-80",
    "accelerators_per_node": 8,
    "nodes": 2,
    "memory": "1TiB",
    "cpu": 96,
}


def _with(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """VALUES with another value at `path`."""

    def replaced(old: Any, keys: tuple[str, ...]) -> Any:
        head, *rest = keys
        return old | {head: replaced(old.get(head, {}), tuple(rest)) if rest else value}

    changed: dict[str, Any] = replaced(VALUES, path)
    return changed


def _metal(**changes: Any) -> dict[str, Any]:
    chat = {"pool": "l4", "replicas": {"min": 1, "max": 2}}
    return VALUES | {"target": "metal", "pools": {"l4": METAL}, "models": {"chat": chat}} | changes


def _problem(values: dict[str, Any]) -> Problem:
    with pytest.raises(ConfigError) as caught:
        parse_environment(values, name="aws", source="Pulumi.aws.yaml")
    (problem,) = caught.value.problems
    return problem


def _settings(values: dict[str, Any]) -> FleetSettings:
    settings = parse_environment(values, name="aws", source="Pulumi.aws.yaml").settings
    assert isinstance(settings, FleetSettings)
    return settings


@pytest.mark.parametrize(("name", "pools"), [("aws", 4), ("metal", 3)])
def test_the_shipped_fleets_are_valid_with_their_pools_and_12_models(name: str, pools: int) -> None:
    environment = load_environment(ROOT, name)
    assert isinstance(environment.settings, FleetSettings)
    assert len(environment.settings.pools) == pools
    models = deployed_models(environment, load_models(ROOT, "models"))
    assert len(models) == 12
    assert all(model.settings.load and model.settings.slo for model in models.values())


def test_dev_deploys_only_the_model_it_names() -> None:
    inputs = load_inputs(ROOT, "dev")
    assert isinstance(inputs.environment.settings, DevSettings)
    assert list(inputs.models) == ["smollm2"]


def test_a_model_may_name_one_pool_or_some() -> None:
    assert _settings(VALUES).models["chat"].candidates == ("h100", "l4")
    one = {"pool": "l4", "replicas": {"min": 1, "max": 2}}
    assert _settings(_with(("models", "chat"), one)).models["chat"].candidates == ("l4",)


# path, value, then the complaint: key, words in message, words in fix
MISTAKES = {
    "both pool and pools": (
        (("models", "chat", "pool"), "l4"),
        ("models.chat", "one `pool`, or some `pools`", "pool: "),
    ),
    "an unknown pool among some": (
        (("models", "chat", "pools"), ["h10", "l4"]),
        ("models.chat.pools", "does not have", 'did you mean "h100"?'),
    ),
    "fewer nodes at most than at least": (
        (("pools", "h100", "nodes"), {"min": 3, "max": 2}),
        ("pools.h100.nodes", "min is greater than max", "raise max to 3"),
    ),
    "a quota below what the pool keeps": (
        (("pools", "h100"), VALUES["pools"]["h100"] | {"nodes": {"min": 3, "max": 4}, "quota": 2}),
        ("pools.h100.quota", "less than nodes.min, which is 3", "or lower nodes.min to 2"),
    ),
    "no nodes": (
        (("pools", "h100", "nodes"), 0),
        ("pools.h100.nodes", "at least 1", "1 or more"),
    ),
    "a pool that is none": (
        (("pools", "l4"), 3),
        ("pools.l4", "a mapping", "e.g. {kind: aws, instance: g6.xlarge"),
    ),
    "a pool of another target": (
        (("pools", "l4"), METAL),
        ("pools.l4.kind", "not a pool of target aws", "use kind aws"),
    ),
    "an unknown market": (
        (("pools", "h100", "market"), "spt"),
        ("pools.h100.market", "'spot'", 'did you mean "spot"?'),
    ),
    "an unknown kind of pool": (
        (("pools", "l4", "kind"), "azure"),
        ("pools.l4", "'aws', 'metal'", "kind"),
    ),
    "a price of nothing": (
        (("pools", "h100", "usd_per_hour"), 0),
        ("pools.h100.usd_per_hour", "more than 0", "more than 0"),
    ),
    "a public network": (
        (("network", "cidr"), "8.8.0.0/16"),
        ("network.cidr", "not a private network", "10.40.0.0/16"),
    ),
    "a network that is none": (
        (("network", "cidr"), "everywhere"),
        ("network.cidr", "not an IPv4 network", "10.40.0.0/16"),
    ),
    "hosts of a cloud's pool": (
        (("pools", "l4"), VALUES["pools"]["l4"] | {"hosts": [HOST]}),
        ("pools.l4.hosts", "unknown key", "use one of 12, such as"),
    ),
    "fewer replicas at most than at least": (
        (("models", "chat", "replicas"), {"min": 3, "max": 2}),
        ("models.chat.replicas", "min is greater than max", "raise max to 3"),
    ),
    "a budget that contradicts itself": (
        (("budget",), {"usd_per_hour": 9, "usd_per_hour_at_most": 8}),
        ("budget", "greater than usd_per_hour_at_most", "raise usd_per_hour_at_most to 9"),
    ),
    "an unknown key of the budget": (
        (("budget",), {"usd_per_hours": 9}),
        ("budget.usd_per_hours", "unknown key", 'did you mean "usd_per_hour",'),
    ),
}


@pytest.mark.parametrize(("edit", "complaint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_names_its_key_and_its_fix(
    edit: tuple[tuple[str, ...], Any], complaint: tuple[str, str, str]
) -> None:
    key, message, fix = complaint
    problem = _problem(_with(*edit))
    assert problem.key == f"slipway:{key}"
    assert message in problem.message
    assert fix in problem.fix


def test_fleets_refuse_local_pools_and_dev_refuses_pools_of_fleets() -> None:
    local = {"kind": "local", "nodes": 1}
    assert "'aws', 'metal'" in _problem(_with(("pools", "l4"), local)).message
    dev = {
        "target": "dev",
        "network": {"cidr": "127.77.0.0/24"},
        "pools": {"edge": METAL},
        "models": {},
    }
    with pytest.raises(ConfigError) as caught:
        parse_environment(dev, name="dev", source="Pulumi.dev.yaml")
    assert "slipway:pools.edge.kind" in [problem.key for problem in caught.value.problems]


DIGEST = f"sha256:{'0123456789abcdef' * 4}"
CONTAINERS = {"runtime": "container", "image": f"nvcr.io/nvidia/tritonserver@{DIGEST}"}

# pools of a metal environment, then the complaint: key, words in message, words in fix
POOL_MISTAKES = {
    "an address outside of the network": (
        {"l4": METAL | {"nodes": None, "hosts": [HOST | {"address": "10.50.0.11"}]}},
        ("pools.l4.hosts.0.address", "is outside the network", "slipway:network"),
    ),
    "a host named like a server": (
        {"l4": METAL | {"nodes": None, "hosts": [HOST | {"name": "server-0"}]}},
        ("pools.l4.hosts.0.name", "is named like a server", "rename the host"),
    ),
    "hosts with accelerators of unknown size": (
        {"l4": METAL | {"nodes": None, "hosts": [HOST], "cpu": None}},
        ("pools.l4", "Nomad counts them of each host", "memory: 64GiB"),
    ),
    "accelerators with memory and no cores": (
        {"l4": METAL | {"cpu": None}},
        ("pools.l4", "must have both `memory` and `cpu`", "cpu: 32"),
    ),
    "both fixed and elastic": (
        {"l4": METAL | {"hosts": [HOST]}},
        ("pools.l4", "both fixed `hosts` and a number of `nodes`", "keep `hosts` or `nodes`"),
    ),
    "neither hosts nor nodes": (
        {"l4": METAL | {"nodes": None}},
        ("pools.l4", "neither `hosts` nor a number of `nodes`", "add `hosts` or `nodes`"),
    ),
    "an accelerator and none of them": (
        {"l4": METAL | {"accelerators_per_node": 0}},
        ("pools.l4", "both `accelerator` and `accelerators_per_node`, or neither", "missing"),
    ),
    "processors of an unknown size": (
        {"l4": {"kind": "metal", "nodes": 2, "cpu": 4}},
        ("pools.l4", "placed by its nodes' memory and cores", "memory: 64GiB"),
    ),
    "a host of two pools": (
        {
            "l4": METAL | {"nodes": None, "hosts": [HOST]},
            "z": CPU | {"nodes": None, "hosts": [HOST | {"name": "other"}]},
        },
        ("pools.z.hosts.0.address", "is already a host of pool l4", "every host once"),
    ),
    "an image by its tag": (
        {"l4": METAL | CONTAINERS | {"image": "nvcr.io/nvidia/tritonserver:26.10-vllm-python-py3"}},
        ("pools.l4.image", "a tag can be moved", "NAME@sha256:"),
    ),
    "an image by tag and digest": (
        {"l4": METAL | CONTAINERS | {"image": f"nvcr.io/nvidia/tritonserver:26.10@{DIGEST}"}},
        ("pools.l4.image", "a tag can be moved", "without a tag"),
    ),
    "containers without an image": (
        {"l4": METAL | {"runtime": "container"}},
        ("pools.l4.image", "is missing", "add `image: NAME@sha256:"),
    ),
    "an image without containers": (
        {"l4": METAL | {"image": f"nvcr.io/nvidia/tritonserver@{DIGEST}"}},
        ("pools.l4.image", "applies to containers only", "runtime: container"),
    ),
    "an image by its ID and no file": (
        {"l4": METAL | CONTAINERS | {"image": DIGEST}},
        ("pools.l4.image_archive", "is in no registry", "docker save"),
    ),
    "a file for an image of a registry": (
        {"l4": METAL | CONTAINERS | {"image_archive": "triton.tar"}},
        ("pools.l4.image_archive", "for an image that is named by its ID", "remove it"),
    ),
    "containers on processors": (
        {"l4": METAL, "z": CPU | CONTAINERS},
        ("pools.z.runtime", "engines on processors run bare", "remove it"),
    ),
    "an address that is none": (
        {"l4": METAL | {"nodes": None, "hosts": [HOST | {"address": "rack1"}]}},
        ("pools.l4.hosts.0.address", "not an IPv4 address", "10.50.0.13"),
    ),
}


@pytest.mark.parametrize(("pools", "complaint"), POOL_MISTAKES.values(), ids=POOL_MISTAKES.keys())
def test_an_impossible_pool_of_machines_names_its_key_and_its_fix(
    pools: dict[str, Any], complaint: tuple[str, str, str]
) -> None:
    problem = _problem(_metal(pools=pools))
    key, message, fix = complaint
    assert problem.key == f"slipway:{key}"
    assert message in problem.message
    assert fix in problem.fix


SERVER = {"name": "rack9", "address": "10.40.0.90"}
# settings of a metal environment, then the complaint: key, words in message, words in fix
SERVER_MISTAKES = {
    "fewer hosts than servers": (
        {"servers": 3, "server_hosts": [SERVER]},
        ("server_hosts", "as slipway:servers says, which is 3", "list 3"),
    ),
    "two of them": (
        {"servers": 2, "server_hosts": [SERVER]},
        ("servers", "must be 1, 3 or 5", "allowed value"),
    ),
    "a server outside of the network": (
        {"server_hosts": [SERVER | {"address": "10.50.0.11"}]},
        ("server_hosts.0.address", "is outside the network", "slipway:network"),
    ),
    "one host twice": (
        {"servers": 3, "server_hosts": [SERVER, SERVER | {"name": "b"}, HOST | {"name": "c"}]},
        ("server_hosts.1.address", "is already a server", "every host once"),
    ),
    "a host of a pool too": (
        {
            "server_hosts": [SERVER],
            "pools": {"l4": METAL | {"nodes": None, "hosts": [HOST | {"name": "rack9"}]}},
        },
        ("pools.l4.hosts.0.name", "is already a server", "every host once"),
    ),
    "a host without an address": (
        {"server_hosts": [{"name": "rack9"}]},
        ("server_hosts.0.address", "is required", "address:"),
    ),
}


@pytest.mark.parametrize(
    ("changes", "complaint"), SERVER_MISTAKES.values(), ids=SERVER_MISTAKES.keys()
)
def test_impossible_hosts_of_servers_are_named_with_their_fix(
    changes: dict[str, Any], complaint: tuple[str, str, str]
) -> None:
    problem = _problem(_metal(**changes))
    key, message, fix = complaint
    assert problem.key == f"slipway:{key}"
    assert message in problem.message
    assert fix in problem.fix


# of an environment with the host HOST, then the complaint: words in message, words in fix
SHARED_ADDRESS_MISTAKES = {
    "10.50.0.30": ("is outside the network", "free address inside it"),
    "10.40.0.11": ("is the address of host rack1", "no host has"),
}


@pytest.mark.parametrize(("address", "complaint"), SHARED_ADDRESS_MISTAKES.items())
def test_an_impossible_address_of_the_gateway_is_named_with_its_fix(
    address: str, complaint: tuple[str, str]
) -> None:
    pools = {"l4": METAL | {"nodes": None, "hosts": [HOST]}}
    problem = _problem(_metal(pools=pools, gateway={"pool": "l4", "address": address}))
    assert problem.key == "slipway:gateway.address"
    assert complaint[0] in problem.message
    assert complaint[1] in problem.fix


def test_an_address_is_shared_by_listed_hosts_only() -> None:
    pools = {"l4": METAL}
    problem = _problem(_metal(pools=pools, gateway={"pool": "l4", "address": "10.40.0.30"}))
    assert "lists its `hosts`" in problem.message


def test_a_cloud_has_no_hosts_to_list_for_its_servers() -> None:
    problem = _problem(VALUES | {"server_hosts": [SERVER]})
    assert problem.key == "slipway:server_hosts"
    assert "applies to target metal only" in problem.message


def test_a_pool_that_is_both_fixed_and_elastic_is_shown_with_both() -> None:
    pools = {"l4": METAL | {"hosts": [HOST]}}
    assert _problem(_metal(pools=pools)).value == {"nodes": METAL["nodes"], "hosts": (HOST,)}
