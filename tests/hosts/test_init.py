"""What `slipway init` writes for bare hosts plans, keeps every policy, comes up and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.hosts.bed import NETWORK, Bed
from tests.hosts.conftest import ADDRESSES
from tests.hosts.environment import Checkout, environment, must_know_a_capital

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

MODEL = "smollm2"
OPTIONS = {"server-0": "--server", "worker-0": "--host", "edge-0": "--gateway-host"}


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Without a stack file."""
    with environment(hosts, tmp_path_factory, models={}) as made:
        made.settings.unlink()
        yield made


def options(hosts: Bed) -> list[str]:
    """The answers of a person with these machines."""
    machines = [
        word for name, address in ADDRESSES.items() for word in (OPTIONS[name], f"{name}={address}")
    ]
    network, size = ("--network", f"{NETWORK}.0/24"), ("--memory", "16GiB", "--cores", "8")
    return ["--target", "metal", *network, *machines, *size, "--ssh-key", str(hosts.key)]


def test_what_init_writes_plans_keeps_every_policy_comes_up_and_answers(
    hosts: Bed, checkout: Checkout
) -> None:
    checkout.slipway("init", *options(hosts), "--model", MODEL, "--yes")
    planned = json.loads(checkout.slipway("plan", "--json").stdout)
    assert [model["name"] for model in planned["models"]] == [MODEL]
    assert json.loads(checkout.slipway("policies", "--json").stdout)["findings"] == []
    checkout.slipway("up")
    must_know_a_capital(checkout, ADDRESSES["edge-0"], MODEL)
