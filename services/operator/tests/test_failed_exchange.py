"""Changes of a model whose replicas do not start, against real Nomad and Consul."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import Cluster
from gate import (
    SERVER,
    fewest_serving,
    gate,
    model_job,
    placed_of,
    replicas,
    same_as_before,
    start_old,
    wait_for_any_serving,
    wait_for_serving,
)
from gates.model_job import ModelJob, is_reduced
from hangs import HANG_S
from program.http_json import Api
from program.waiting import wait_until

pytestmark = pytest.mark.binaries

NETWORK = "127.99.0."


def test_a_spec_that_cannot_start_returns_every_replica_and_can_be_tried_again(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    before = start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3, command="echo no such flag >&2; exit 3"))
    for _ in range(2):  # the second run finds what the first one has left
        with fewest_serving(consul) as fewest:
            done = gate(cluster, "1", min_replicas=3)
        assert done.returncode == 1
        assert "task server fails as often as it starts: Exit Code: 3" in done.stderr
        assert "the replicas of model-m-0 serve\n" in done.stderr
        assert "\n    no such flag\nfix: slipway logs model-m-1 " in done.stderr
        assert fewest() == 2
        assert same_as_before(ModelJob("model-m-0", nomad).document(), before)
        wait_for_any_serving(consul, 3)
        assert replicas(nomad, "1") == {}


def test_beside_a_set_that_serves_one_that_cannot_start_stands_down_until_its_next_gate(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=1)
    old = replicas(nomad, "0")
    broken = model_job("1", count=1, command="echo no such flag >&2; exit 3")
    for _ in range(2):  # the second run begins anew
        nomad.post("/v1/jobs", broken)
        done = gate(cluster, "1", min_replicas=1, surge=None)
        assert done.returncode == 1
        assert "Exit Code: 3; the replicas of the previous spec keep serving\n" in done.stderr
        assert is_reduced(ModelJob("model-m-1", nomad).document())
        wait_until("it has none", lambda: "some" if placed_of(nomad, "1") else None, HANG_S)
        wait_for_serving(consul, old)


def test_a_set_without_another_one_that_serves_is_left_to_come_up(
    cluster: Cluster, nomad: Api, consul: Api, tmp_path: Path
) -> None:
    begin = tmp_path / "begin"
    waiting = f"until [ -e {begin} ]; do sleep 0.1; done; {SERVER}"
    nomad.post("/v1/jobs", model_job("1", count=1, command=waiting))
    done = gate(cluster, "1", min_replicas=1, surge=None, deadline_s=0)
    assert "model m: not ready after 0 s" in done.stderr
    begin.touch()
    wait_for_any_serving(consul, 1)


def test_a_spec_taken_up_again_that_fails_gives_back_to_the_one_that_served(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3))
    assert gate(cluster, "1", min_replicas=3).returncode == 0
    before = ModelJob("model-m-1", nomad).document()
    nomad.delete("/v1/job/model-m-0")  # as Pulumi does; Nomad remembers it
    nomad.post("/v1/jobs", model_job("0", count=3, command="echo broken now >&2; exit 3"))
    done = gate(cluster, "0", min_replicas=3)
    assert done.returncode == 1
    assert "the replicas of model-m-1 serve\n" in done.stderr
    assert same_as_before(ModelJob("model-m-1", nomad).document(), before)
    wait_for_any_serving(consul, 3)


def test_a_step_before_the_server_that_fails_is_named_with_its_last_words(
    cluster: Cluster, nomad: Api
) -> None:
    before = "echo another checksum >&2; exit 2"
    nomad.post("/v1/jobs", model_job("1", count=1, before=before))
    done = gate(cluster, "1", min_replicas=1)
    assert done.returncode == 1
    assert "task weights fails as often as it starts: Exit Code: 2" in done.stderr
    assert "\n    another checksum\nfix: slipway logs model-m-1 " in done.stderr


def test_an_old_spec_that_gave_up_its_last_replica_gets_all_back(
    cluster: Cluster, nomad: Api, consul: Api, tmp_path: Path
) -> None:
    """Two replicas of the new spec come up; then the old one has none left, and the third fails."""
    before = start_old(cluster, nomad, count=3)
    one, two = tmp_path / "one", tmp_path / "two"
    third_fails = f"mkdir {one} || mkdir {two} || exit 3; {SERVER}"
    nomad.post("/v1/jobs", model_job("1", count=3, command=third_fails))
    done = gate(cluster, "1", min_replicas=3)
    assert done.returncode == 1
    assert done.stdout.count("a replica of model-m-0 makes room") == 3
    assert "the replicas of model-m-0 serve\n" in done.stderr
    assert same_as_before(ModelJob("model-m-0", nomad).document(), before)
    wait_for_serving(consul, (each["ID"] for each in placed_of(nomad, "0")))
