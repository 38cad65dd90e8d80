"""The credentials of weights, with a real Nomad whose ACLs are on: who gets them, and as what."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from components.nomad.agent_config import CLOUD_FINGERPRINTS
from components.nomad.jobspec import Group, Job, Task, to_json
from components.serving.credentials import CredentialsPolicy, credentials_policy
from tests.components.accelerator_jobs import accelerator_job, planned
from tests.components.nomad_agent import started_agent
from tests.waiting import until

pytestmark = [pytest.mark.binaries]

ADDRESS = "127.98.0.9"
CANARY = 'a secret with "quotes", \\ and ümlauts'
VARIABLE = "slipway/credentials/models"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent's data."""
    return tmp_path_factory.mktemp("nomad") / "data"


@pytest.fixture(scope="module")
def nomad(data: Path) -> Iterator[httpx.Client]:
    configuration = {
        "datacenter": "fleet",
        "acl": {"enabled": True},
        "server": {"enabled": True, "bootstrap_expect": 1},
        "client": {
            "enabled": True,
            "node_pool": "own",
            "options": {"fingerprint.denylist": CLOUD_FINGERPRINTS},
        },
        "plugin": [{"raw_exec": {"config": {"enabled": True}}}],
        "consul": {"client_auto_join": False, "server_auto_join": False},
    }
    with started_agent(data.parent, ADDRESS, configuration) as client:
        token = client.post("/v1/acl/bootstrap").raise_for_status().json()["SecretID"]
        client.headers["X-Nomad-Token"] = token

        def ready() -> bool | None:  # its node pool exists once it has registered
            return [node["Status"] for node in client.get("/v1/nodes").json()] == ["ready"] or None

        until(ready, "the client's node")
        yield client
        for job in client.get("/v1/jobs").json():
            client.delete(f"/v1/job/{job['ID']}", params={"purge": True})

        def gone() -> bool | None:
            client.put("/v1/system/gc")
            return not any((data / "alloc").iterdir()) or None

        until(gone, "the end of all allocations, whose folders are mounts")


def put_variable(nomad: httpx.Client, **items: str) -> None:
    """Once the server's keyring is there, without which it answers 500."""
    body = {"Path": VARIABLE, "Namespace": "default", "Items": items}
    until(lambda: nomad.put(f"/v1/var/{VARIABLE}", json=body).is_success or None, "the variable")


def put_policy(nomad: httpx.Client, policy: CredentialsPolicy) -> None:
    job_acl = {
        "Namespace": "default",
        "JobID": policy.job_id,
        "Group": policy.group,
        "Task": policy.task,
    }
    body = {"Name": policy.name, "Rules": policy.rules, "JobACL": job_acl}
    nomad.post(f"/v1/acl/policy/{policy.name}", json=body).raise_for_status()


def only_shows_its_credentials(job: Job) -> Job:
    """The weights task of a job as it is, but for its command: it prints its file of credentials,
    and a task beside it asks Nomad for them."""
    (weights,) = [task for task in job.group.tasks if task.name == "weights"]
    shows = dataclasses.replace(
        weights,
        command="/bin/sh",
        args=(
            "-c",
            'cat "$SLIPWAY_CREDENTIALS" > $NOMAD_ALLOC_DIR/shown;'
            ' stat -c %a "$SLIPWAY_CREDENTIALS" > $NOMAD_ALLOC_DIR/mode',
        ),
        env={"SLIPWAY_CREDENTIALS": weights.env["SLIPWAY_CREDENTIALS"]},
        cpu_mhz=50,
        memory_mb=32,
    )
    url = f"http://{ADDRESS}:4646/v1/var/{VARIABLE}"
    asks = Task(
        name="server",
        command="/bin/sh",
        args=(
            "-c",
            'cd "$NOMAD_ALLOC_DIR"; curl -s -o answer -w "%%{http_code}"'
            f' -H "X-Nomad-Token: $NOMAD_TOKEN" {url} > new; mv new status; sleep 3600',
        ),
        cpu_mhz=50,
        memory_mb=32,
        nomad_identity=True,
    )
    group = Group(name=job.group.name, count=1, ports={}, tasks=(shows, asks))
    return dataclasses.replace(job, group=group)


def run(nomad: httpx.Client, job: Job, data: Path) -> Path:
    """The folder that the allocation's tasks share, once both have said what they saw."""
    submitted: dict[str, Any] = json.loads(to_json(job))
    nomad.post("/v1/jobs", json=submitted).raise_for_status()

    def said() -> Path | None:
        for allocation in nomad.get(f"/v1/job/{job.id}/allocations").json():
            folder = data / "alloc" / allocation["ID"] / "alloc"
            if all((folder / name).is_file() for name in ("mode", "status")):
                return folder
        return None

    return until(said, "what the tasks have seen")


def test_the_weights_task_gets_its_variable_as_json_and_the_server_beside_it_does_not(
    nomad: httpx.Client, data: Path
) -> None:
    _, model = planned("nvidia", 1)
    policy = credentials_policy(model, model.stable.job_id)
    assert policy is not None
    items = {"access_key_id": "AKIA", "secret_access_key": CANARY}
    put_variable(nomad, **items)
    put_policy(nomad, policy)
    folder = run(nomad, only_shows_its_credentials(accelerator_job("nvidia", 1)), data)
    assert json.loads((folder / "shown").read_text()) == items
    assert (folder / "mode").read_text().strip() == "600"
    assert (folder / "status").read_text() == "403"
    assert CANARY not in (folder / "answer").read_text()


def test_a_variable_that_does_not_exist_gives_an_empty_file_and_no_endless_wait(
    nomad: httpx.Client, data: Path
) -> None:
    nomad.delete(f"/v1/var/{VARIABLE}").raise_for_status()
    _, model = planned("nvidia", 2)
    policy = credentials_policy(model, model.stable.job_id)
    assert policy is not None
    put_policy(nomad, policy)
    folder = run(nomad, only_shows_its_credentials(accelerator_job("nvidia", 2)), data)
    assert json.loads((folder / "shown").read_text()) == {}
