"""Successful and killed changes of a model, against real Nomad and Consul."""

from __future__ import annotations

import pytest
from cluster import Cluster
from gate import (
    fewest_serving,
    gate,
    kill_at_the_first_replica,
    model_job,
    placed_of,
    replicas,
    same_as_before,
    serving,
    start_old,
    wait_for_any_serving,
    wait_for_serving,
)
from gates.member_hosts import ADMITTED
from gates.model_job import ModelJob, group_of, is_reduced
from hangs import HANG_S
from program.group.place import index_of
from program.http_json import Api
from program.waiting import wait_until

pytestmark = pytest.mark.binaries

NETWORK = "127.97.0."


def test_a_full_node_exchanges_replica_by_replica_and_leaves_others_alone(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=3)
    old = replicas(nomad, "0")
    nomad.post("/v1/jobs", model_job("1", count=3))
    with fewest_serving(consul) as fewest:
        done = gate(cluster, "1", min_replicas=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fewest() == 2
    assert done.stdout.count("makes room") == 3
    wait_for_serving(consul, replicas(nomad, "1"))
    begun = {
        each["ID"]: each["TaskStates"]["server"]["StartedAt"]
        for each in ModelJob("model-m-0", nomad).allocations()
    }
    assert begun == old  # none began again on the way out


def test_a_full_node_exchanges_group_by_group_the_highest_first(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=2, members=2)
    nomad.post("/v1/jobs", model_job("1", count=2, members=2))
    done = gate(cluster, "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("makes room") == 2
    assert "1 of 2 replicas of model-m-1" in done.stdout
    assert "2 replicas of model-m-1 answer" in done.stdout
    wait_for_serving(consul, replicas(nomad, "1"))
    assert counts(nomad, "0") == [4, 2, 0]
    ended = ModelJob("model-m-0", nomad).allocations()
    by_end = sorted(ended, key=lambda each: each["TaskStates"]["server"]["FinishedAt"])
    assert {index_of(each["Name"]) for each in by_end[:2]} == {2, 3}


def test_a_group_without_room_for_all_of_its_members_is_not_ready_and_names_the_missing(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=2)
    old = replicas(nomad, "0")
    nomad.post("/v1/jobs", model_job("1", count=1, members=2, service="model-m-1"))
    wait_until(
        "what fits is placed", lambda: None if placed_of(nomad, "1") else "nothing yet", HANG_S
    )
    alone = {"service": "model-m-1", "surge": None, "min_replicas": 1, "max_replicas": 1}
    done = gate(cluster, "1", **alone, deadline_s=0)
    assert done.returncode == 1
    assert "no room for 1 of its replicas (memory)" in done.stderr
    assert "group 0 has no place for rank 1;" in done.stderr
    assert replicas(nomad, "0") == old


def test_no_replica_makes_room_on_a_host_that_takes_no_members(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=1)
    old = replicas(nomad, "0")
    changed = model_job("1", count=1)
    (group,) = changed["Job"]["TaskGroups"]
    group["Constraints"] = [{"LTarget": ADMITTED, "Operand": "=", "RTarget": "yes"}]
    nomad.post("/v1/jobs", changed)
    done = gate(cluster, "1", min_replicas=1, deadline_s=0)
    assert done.returncode == 1
    assert "makes room" not in done.stdout
    assert "needs 1 more hosts whose fabric check has passed" in done.stdout + done.stderr
    assert replicas(nomad, "0") == old

    (node,) = nomad.get("/v1/nodes")
    nomad.post(f"/v1/client/metadata?node_id={node['ID']}", {"Meta": {"fabric_members": "yes"}})
    done = gate(cluster, "1", min_replicas=1)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_raised_minimum_is_waited_for(cluster: Cluster, nomad: Api, consul: Api) -> None:
    start_old(cluster, nomad, count=1)
    old = replicas(nomad, "0")
    nomad.post("/v1/jobs", model_job("0", count=3))
    assert ModelJob("model-m-0", nomad).count() == 1  # as Pulumi has it: nobody counted anew
    done = gate(cluster, "0", min_replicas=3)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for_any_serving(consul, 3)
    assert old.items() <= replicas(nomad, "0").items()


def test_no_more_replicas_are_removed_than_room_is_needed(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=2)
    old = replicas(nomad, "0")
    nomad.post("/v1/jobs", model_job("1"))
    with fewest_serving(consul) as fewest:
        done = gate(cluster, "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert fewest() == 2  # the third place was free
    (stays,) = replicas(nomad, "0").items()
    assert stays in old.items()


def test_a_spec_taken_up_again_has_the_count_of_the_one_that_serves(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=2)
    nomad.delete("/v1/job/model-m-0")  # stopped with a count of 2
    wait_until("it ends", lambda: "serving" if serving(consul) else None, HANG_S)
    nomad.post("/v1/jobs", model_job("1", count=1))
    assert gate(cluster, "1", min_replicas=1).returncode == 0
    nomad.post("/v1/jobs", model_job("0", count=1))
    assert ModelJob("model-m-0", nomad).count() == 2  # as Pulumi has it
    wait_for_any_serving(consul, 3)
    done = gate(cluster, "0", min_replicas=1, surge=None)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ModelJob("model-m-0", nomad).count() == 1


def test_a_killed_exchange_is_completed_by_the_next_run(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3))
    kill_at_the_first_replica(cluster, "1")
    assert is_reduced(ModelJob("model-m-0", nomad).document())
    with fewest_serving(consul) as fewest:
        done = gate(cluster, "1", min_replicas=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fewest() >= 2
    wait_for_serving(consul, replicas(nomad, "1"))


def test_a_killed_exchange_is_undone_by_the_old_specs_gate(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    before = start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3))
    kill_at_the_first_replica(cluster, "1")
    nomad.post("/v1/jobs", model_job("0", count=3))  # as Pulumi does: it keeps the count
    assert ModelJob("model-m-0", nomad).count() == 2
    with fewest_serving(consul) as fewest:
        done = gate(cluster, "0", min_replicas=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fewest() >= 2
    wait_for_serving(consul, replicas(nomad, "0"))
    assert same_as_before(ModelJob("model-m-0", nomad).document(), before)


def test_undoing_never_ends_proven_replicas_for_ones_that_never_started(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=3)
    nomad.post("/v1/jobs", model_job("1", count=3))
    kill_at_the_first_replica(cluster, "1")
    nomad.post("/v1/jobs", model_job("0", count=3))
    done = gate(cluster, "0", min_replicas=3, deadline_s=0)
    assert done.returncode == 1
    assert "the running replicas of model-m-0 keep serving" in done.stderr
    assert ModelJob("model-m-0", nomad).count() == 3
    wait_for_any_serving(consul, 2)


def test_a_job_of_another_release_keeps_its_replicas(
    cluster: Cluster, nomad: Api, consul: Api
) -> None:
    start_old(cluster, nomad, count=1)
    nomad.post("/v1/jobs", model_job("canary", count=1, release="canary"))
    canary = gate(cluster, "canary", release="canary", min_replicas=1)
    assert canary.returncode == 0, canary.stdout + canary.stderr
    begun = replicas(nomad, "canary")
    nomad.post("/v1/jobs", model_job("1"))
    done = gate(cluster, "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a replica of model-m-0 makes room" in done.stdout
    assert replicas(nomad, "canary") == begun
    assert not is_reduced(ModelJob("model-m-canary", nomad).document())


def test_a_model_of_one_protocol_is_not_asked_for_the_other(cluster: Cluster, nomad: Api) -> None:
    nomad.post("/v1/jobs", model_job("0", count=1, suffixes=["-openai"]))
    done = gate(cluster, "0", min_replicas=1, protocols=["http"])
    assert done.returncode == 0, done.stdout + done.stderr
    both = gate(cluster, "0", min_replicas=1, deadline_s=0)
    assert both.returncode == 1
    assert "model m: not ready after 0 s" in both.stderr


def counts(nomad: Api, spec: str) -> list[int]:
    """Every count that the job had, of allocations."""
    versions = nomad.get(f"/v1/job/model-m-{spec}/versions")["Versions"]
    return [group_of(each)["Count"] for each in reversed(versions)]
