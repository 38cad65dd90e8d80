"""Fixed hosts of an environment on AWS: machines that boot from their rendered user data, are lost
and replaced at the same addresses, and are known by the same SSH keys as before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from tests.hosts.aws_cloud import Cloud, cloud_of
from tests.hosts.aws_fixed_hosts import FixedHosts, fixed_hosts, shown_keys
from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import Checkout, must_complete, streams
from tests.hosts.remembered import Remembered
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

# Where the plan places them: each server in a zone of its own.
SERVERS = {f"server-{k}": f"10.77.{4 * k}.{4 + k}" for k in range(3)}
EDGE = f"{NETWORK}.16"
FIXED = {**SERVERS, "edge-0": EDGE}
INSTANCE = "i-0"
CPU = {"kind": "aws", "instance": "m7i.2xlarge", "nodes": {"min": 1, "max": 2}}


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {**FIXED, INSTANCE: f"{NETWORK}.201"}


@pytest.fixture(scope="module")
def cloud(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_of(hosts, tmp_path_factory.mktemp("cloud")) as made:
        yield made


@pytest.fixture(scope="module")
def fixed(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FixedHosts]:
    """An environment that is up, whose machines all booted while `up` waited for them."""
    models, pools = {"sim-a": {"min": 1, "max": 1}}, {"cpu": CPU}
    with fixed_hosts(cloud, tmp_path_factory, servers=3, pools=pools, models=models) as made:
        with made.checkout.running("up") as up:
            for name in FIXED:
                made.boot(name, up)
            made.trust()
            cloud.user_data("cpu", up)
            cloud.boot(cloud.bed.hosts[INSTANCE], "cpu", f"i-{0:017x}")
            said, _ = up.communicate(timeout=900)
            assert up.returncode == 0, said[-6000:]
        yield made


@pytest.fixture
def checkout(fixed: FixedHosts) -> Checkout:
    return fixed.checkout


def states(checkout: Checkout) -> dict[str, tuple[str, str]]:
    """What Consul and Nomad say of each fixed host."""
    rows: list[dict[str, Any]] = json.loads(checkout.slipway("hosts", "--json").stdout)["hosts"]
    found = {row["name"]: (row["consul"]["state"], row["nomad"]["state"]) for row in rows}
    return {name: found[name] for name in FIXED}


def voters(checkout: Checkout) -> set[str]:
    """The servers of Nomad's quorum, as another one than the first says."""
    found = checkout.ask(f"https://{SERVERS['server-1']}:4646/v1/operator/raft/configuration")
    return {each["Node"].removesuffix(".global") for each in found["Servers"] if each["Voter"]}


WELL = {**dict.fromkeys(SERVERS, ("alive", "alive")), "edge-0": ("alive", "ready")}


def forget(checkout: Checkout, host: str) -> None:
    """Forgets a host as soon as the clusters have noticed its death."""
    for attempt in Retrying(
        stop=stop_after_delay(180),
        wait=wait_fixed(5),
        retry=retry_if_exception_type(AssertionError),
        reraise=True,
    ):
        with attempt:
            checkout.slipway("forget", host, "--yes")


def test_hosts_that_boot_from_their_user_data_serve(checkout: Checkout) -> None:
    assert states(checkout) == WELL
    must_complete(EDGE)


@pytest.mark.parametrize("name", FIXED)
def test_a_host_shows_the_key_that_its_secret_holds_and_no_other(
    fixed: FixedHosts, name: str
) -> None:
    public = fixed.secret(name)["public"]
    assert public == f"{fixed.known_key(name)} {name}\n"
    assert shown_keys(FIXED[name]) == [fixed.known_key(name)]
    assert f"this host has the key of slipway/hosts/hosts/{name}" in fixed.log(name)


def test_the_next_preview_is_empty(checkout: Checkout) -> None:
    done = checkout.slipway("preview", "--json", check=False)  # policies want more than a test
    assert set(json.loads(done.stdout)["changeSummary"]) == {"same"}


def test_no_private_key_of_a_host_is_in_its_user_data(fixed: FixedHosts) -> None:
    for name in FIXED:
        assert "PRIVATE KEY" not in fixed.cloud.user_data(name)
        assert fixed.secret(name)["private"].splitlines()[1] not in fixed.cloud.user_data(name)


def test_a_server_that_starts_again_fetches_its_key_again(fixed: FixedHosts, hosts: Bed) -> None:
    """The bed gives every machine that starts the key of its image."""
    fixed.lose("server-1")
    host = hosts.start("server-1", same_disk=True)
    fixed.describe(host)
    fixed.until_it_shows_its_key("server-1")
    assert "this host has the key" in fixed.log("server-1")
    until(lambda: states(fixed.checkout) == WELL, pause_s=2)


def test_a_replaced_server_shows_the_same_key_and_the_next_up_brings_it_back(
    fixed: FixedHosts, checkout: Checkout
) -> None:
    """The first one, which every address of the plan names. `up` makes its new machine, and waits
    until it has booted."""
    before = fixed.known_key("server-0")
    with streams(EDGE) as streamed:
        fixed.terminate("server-0")
        forget(checkout, "server-0")
        with checkout.running("up") as up:
            fixed.start("server-0", until_made_by=up)
            said, _ = up.communicate(timeout=900)
        assert up.returncode == 0, said[-6000:]
    assert len(streamed.answers) > 20
    assert streamed.failed == []
    assert shown_keys(SERVERS["server-0"]) == [before]
    assert fixed.known_key("server-0") == before
    assert states(checkout) == WELL
    assert voters(checkout) == set(SERVERS)


def test_the_up_after_it_changes_nothing(checkout: Checkout) -> None:
    checkout.slipway("up")
    assert checkout.changed() == set()


def test_servers_that_lost_everything_are_restored_at_their_addresses_and_no_stream_fails(
    fixed: FixedHosts, checkout: Checkout
) -> None:
    remembered = Remembered(checkout, SERVERS["server-0"])
    checkout.slipway("snapshot")
    before, tokens_before = remembered.all(), remembered.tokens()
    assert before["KV"]
    assert before["variables"]
    keys = [fixed.known_key(name) for name in SERVERS]
    with streams(EDGE) as streamed:
        fixed.terminate(*SERVERS)
        with checkout.running("restore", "--yes") as restore:
            fixed.start(*SERVERS, until_made_by=restore)
            said, _ = restore.communicate(timeout=900)
        assert restore.returncode == 0, said[-6000:]
    for system in ("Consul", "Nomad"):
        assert f"{system}: restored from" in said
    assert len(streamed.answers) > 20
    assert streamed.failed == []
    assert remembered.all() == before
    assert remembered.tokens() == tokens_before
    assert states(checkout) == WELL
    assert [shown_keys(address) for address in SERVERS.values()] == [[key] for key in keys]


def test_a_node_of_an_elastic_pool_is_back_after_a_restore(checkout: Checkout) -> None:
    def nodes() -> set[str]:
        listed = checkout.ask(f"https://{SERVERS['server-0']}:4646/v1/nodes")
        return {each["Name"] for each in listed if each["Status"] == "ready"}

    until(lambda: nodes() == {"edge-0", f"cpu-{0:017x}"})


def test_the_up_after_a_restore_changes_nothing(checkout: Checkout) -> None:
    with streams(EDGE) as streamed:
        checkout.slipway("up")
    assert checkout.changed() == set()
    assert streamed.failed == []
