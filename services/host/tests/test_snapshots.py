"""Snapshots of real servers: taken, damaged, and restored into servers that lost their data."""

from __future__ import annotations

import datetime
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, passing, running_cluster, wait_until_passing, web_job
from hangs import HANG_S
from program.errors import HostError
from program.http_json import Api, ApiError
from program.snapshots import verify
from program.waiting import wait_until
from snapshots import archive, take

pytestmark = pytest.mark.binaries

NETWORK = "127.103.0."
JOB = "prometheus"  # its tasks have a role in Consul
NOON = datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.timezone.utc)
HOUR = datetime.timedelta(hours=1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(NETWORK) as made:
        yield made


def apis(cluster: Cluster) -> dict[str, Api]:
    return {
        "consul": cluster.consul(cluster.management["consul"]),
        "nomad": cluster.nomad(cluster.management["nomad"]),
    }


def lose_the_servers_data(cluster: Cluster) -> None:
    """The server's host comes back with an empty disk, and its agents are applied to it."""
    for document in ("server-0-nomad", "server-0-consul"):
        cluster.succeed("agents.py", "remove", document=cluster.golden(document))
    for document in ("server-0-consul", "server-0-nomad"):
        cluster.apply("agents.py", cluster.golden(document), cluster.agent_secrets("server-0"))


def newest(folder: Path, system: str) -> Path:
    return archive.of_system(folder, system)[-1]


def restore(
    cluster: Cluster, folder: Path, action: str = "apply"
) -> subprocess.CompletedProcess[str]:
    addresses = {"consul": cluster.consul_address(), "nomad": cluster.address(1, 4646)}
    files = {
        system: {"address": address, "file": str(newest(folder, system))}
        for system, address in addresses.items()
    }
    return cluster.program(
        "restore_snapshot.py",
        action,
        document={"schema_version": 1, "leader_timeout_s": 60, **files},
        secrets={"schema_version": 1, **cluster.management},
    )


def test_servers_that_lost_their_data_have_it_again_and_tasks_never_stopped(
    cluster: Cluster, tmp_path: Path
) -> None:
    made = apis(cluster)
    made["nomad"].put("/v1/jobs", web_job(JOB))
    wait_until_passing(made["consul"], JOB)
    made["consul"].put("/v1/kv/slipway/routes/a", {"weight": 1})
    made["nomad"].put(
        "/v1/var/nomad/jobs/prometheus", {"Path": "nomad/jobs/prometheus", "Items": {"key": "x"}}
    )
    token = str(uuid.uuid4())
    made["consul"].put("/v1/acl/token", {"SecretID": token, "Policies": []})
    wait_until("the task", lambda: not_running(made["nomad"]), HANG_S)
    before = running_tasks(cluster)
    take.take(tmp_path, 3, made, NOON)

    lose_the_servers_data(cluster)
    with pytest.raises(ApiError):
        made["consul"].get("/v1/kv/slipway/routes/a")
    done = restore(cluster, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert made["consul"].get("/v1/kv/slipway/routes/a?raw") == {"weight": 1}
    assert made["nomad"].get("/v1/var/nomad/jobs/prometheus")["Items"] == {"key": "x"}
    assert cluster.consul(token).get("/v1/acl/token/self")["SecretID"] == token
    assert made["nomad"].get("/v1/job/prometheus")["Status"] == "running"
    wait_until("the node", lambda: not_ready(made["nomad"]), HANG_S)
    wait_until(JOB, lambda: None if passing(made["consul"], JOB) else "not passing", HANG_S)
    assert running_tasks(cluster) == before


def running_tasks(cluster: Cluster) -> set[int]:
    (allocation,) = apis(cluster)["nomad"].get("/v1/job/prometheus/allocations")
    folder = str(cluster.run_folder / "nodes/cpu-0/nomad/data/alloc" / allocation["ID"])
    return {
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if folder in environment_of(process)
    }


def not_running(nomad: Api) -> str | None:
    (allocation,) = nomad.get("/v1/job/prometheus/allocations")
    status: str = allocation["ClientStatus"]
    return None if status == "running" else status


def environment_of(process: Path) -> str:
    try:
        return (process / "environ").read_text(errors="replace")
    except OSError:
        return ""


def not_ready(nomad: Api) -> str | None:
    try:
        (node,) = nomad.get("/v1/nodes")
    except (ApiError, ValueError) as error:
        return str(error)
    return None if node["Status"] == "ready" else str(node["Status"])


def test_only_the_newest_are_kept_and_no_other_user_can_read_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "nomad-20261101T000000Z.snap.partial").touch()
    for hour in range(3):
        take.take(tmp_path, 2, apis(cluster), NOON + hour * HOUR)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "consul-20261125T130000Z.snap",
        "consul-20261125T140000Z.snap",
        "nomad-20261125T130000Z.snap",
        "nomad-20261125T140000Z.snap",
    ]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_a_damaged_file_is_refused_before_anything_is_restored(
    cluster: Cluster, tmp_path: Path, damage: str
) -> None:
    take.take(tmp_path, 1, apis(cluster), NOON)
    assert restore(cluster, tmp_path, "verify").returncode == 0
    file = newest(tmp_path, "nomad")
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(
        content[:middle]
        if damage == "cut off"
        else content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    )
    with pytest.raises(HostError):
        verify(file)
    for action in ("verify", "apply"):
        done = restore(cluster, tmp_path, action)
        assert done.returncode == 1
        assert file.name in done.stderr
        assert "restored" not in done.stdout
