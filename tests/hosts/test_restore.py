"""Servers that lose everything come back from a snapshot, while streams go on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tenacity import Retrying, stop_after_delay, wait_fixed

from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import Checkout, environment, listed, streams
from tests.hosts.remembered import RUN, Remembered, of_a_run

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/snapshots.schema.json").read_text())
SERVERS = {f"server-{k}": f"{NETWORK}.1{1 + k}" for k in range(3)}
EDGE = f"{NETWORK}.31"
HOSTS = {**SERVERS, "worker-0": f"{NETWORK}.21", "edge-0": EDGE}
SETTINGS = {"servers": 3, "server_hosts": listed(SERVERS)}
CONSUL, NOMAD = (f"https://{SERVERS['server-0']}:{port}/v1" for port in (8501, 4646))


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return HOSTS


@pytest.fixture(scope="module")
def platform(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    models = {"sim-a": {"min": 1, "max": 1}}
    with environment(hosts, tmp_path_factory, models=models, settings=SETTINGS) as made:
        made.slipway("up")
        yield made


def kept(platform: Checkout) -> list[dict[str, Any]]:
    document = json.loads(platform.slipway("snapshots", "--json").stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["host"] == "edge-0"
    return list(document["snapshots"])


def known(platform: Checkout) -> dict[str, Any]:
    return Remembered(platform, SERVERS["server-0"]).all()


def tokens(platform: Checkout) -> set[str]:
    return Remembered(platform, SERVERS["server-0"]).tokens()


def lose(hosts: Bed, names: list[str]) -> None:
    """These servers lose their power, and come back with empty disks."""
    for name in names:
        hosts.hosts[name].end()
    for name in names:
        hosts.start(name)
    hosts.wait_until_ready()


def test_a_snapshot_is_taken_when_asked_for_and_shown(platform: Checkout) -> None:
    before = {each["name"] for each in kept(platform)}
    said = platform.slipway("snapshot").stderr
    newest, *_ = kept(platform)
    assert newest["name"] not in before
    assert f"edge-0 has {newest['name']}" in said
    assert newest["age_s"] < 60
    assert all(newest["size_bytes"][system] > 1000 for system in ("consul", "nomad"))
    assert newest["name"] in platform.slipway("snapshots").stdout


def test_clusters_that_are_well_are_not_replaced(platform: Checkout) -> None:
    before = known(platform)
    refused = platform.slipway("restore", check=False)
    assert refused.returncode == 2
    assert "needs confirmation" in refused.stderr
    refused = platform.slipway("restore", "--yes", check=False)
    assert refused.returncode == 2
    assert "are well: both have a leader" in refused.stderr
    assert "slipway restore -s hosts --force" in refused.stderr
    refused = platform.slipway("restore", "--yes", "--snapshot", "20200101T000000Z", check=False)
    assert refused.returncode == 2
    assert "use one of: 20" in refused.stderr
    assert known(platform) == before


def test_servers_that_lost_everything_are_restored_and_no_stream_fails(
    platform: Checkout, hosts: Bed, record_property: Callable[[str, object], None]
) -> None:
    platform.slipway("snapshot")
    before, tokens_before = known(platform), tokens(platform)
    assert before["KV"]
    assert before["variables"]
    with streams(EDGE) as streamed:
        lose(hosts, list(SERVERS))
        started_s = time.monotonic()
        said = platform.slipway("restore", "--yes").stderr
        took_s = time.monotonic() - started_s
    record_property("restore_s", round(took_s, 1))
    for system in ("Consul", "Nomad"):
        assert f"{system}: restored from" in said
    record_property("streams", len(streamed.answers))
    assert len(streamed.answers) > 20
    assert not streamed.failed
    assert known(platform) == before
    assert tokens(platform) == tokens_before
    rows = json.loads(platform.slipway("hosts", "--json").stdout)["hosts"]
    for row in rows:
        assert row["consul"]["state"] == "alive", row
        assert row["nomad"]["state"] == ("alive" if row["role"] == "server" else "ready"), row


def test_the_run_that_took_the_snapshot_does_not_stay_in_the_restored_state(
    platform: Checkout,
) -> None:
    """If Nomad believed that it goes on, it would begin no other at its time. Such another may run
    just now."""
    for attempt in Retrying(stop=stop_after_delay(240), wait=wait_fixed(2), reraise=True):
        with attempt:
            runs = platform.ask(f"{NOMAD}/jobs?prefix={RUN}")
            assert [each["ID"] for each in runs if each["Status"] != "dead"] == []
            assert not list(filter(of_a_run, platform.ask(f"{CONSUL}/acl/tokens")))


def test_the_next_up_changes_nothing(platform: Checkout) -> None:
    with streams(EDGE) as streamed:
        platform.slipway("up")
    assert platform.changed() == set()
    assert not streamed.failed


def test_without_a_quorum_the_survivors_data_is_replaced_only_if_asked_for(
    platform: Checkout, hosts: Bed
) -> None:
    platform.slipway("snapshot")
    before = known(platform)
    with streams(EDGE) as streamed:
        lose(hosts, ["server-0", "server-2"])
        refused = platform.slipway("restore", "--yes", check=False)
        assert refused.returncode == 2, refused.stderr
        assert "no leader, but server-1 still have data" in refused.stderr
        said = platform.slipway("restore", "--yes", "--force").stderr
    assert "server-1 has no data any more" in said
    assert not streamed.failed
    assert known(platform) == before
