"""The programs against real Consul, Nomad and supervisord: permissions, deaths, and clean ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, passing, running_cluster, wait_until_passing, web_job
from hangs import HANG_S
from host import control_groups, mounts, processes
from host.supervisor import MARK
from program.certificate import client_context
from program.http_json import Api, ApiError
from program.waiting import wait_until

pytestmark = pytest.mark.binaries

NETWORK = "127.95.0."
NOBODY = 65534
JOB = "prometheus"  # a job whose tasks have a role in Consul
OWN, ANOTHER = f"nomad/jobs/{JOB}", "nomad/jobs/autoscaler"  # paths of Nomad's variables


@pytest.fixture
def job(cluster: Cluster) -> Iterator[str]:
    """A running job with one task."""
    nomad, consul = managers(cluster)
    nomad.put("/v1/jobs", web_job(JOB))
    wait_until_passing(consul, JOB)
    yield JOB
    nomad.delete(f"/v1/job/{JOB}?purge=true")
    wait_until("deregistration", lambda: "listed" if passing(consul, JOB) else None, HANG_S)


def managers(cluster: Cluster) -> tuple[Api, Api]:
    """Nomad and Consul with the tokens the command line reads."""
    tokens = {name: (cluster.run_folder / "tokens" / name).read_text() for name in cluster.keys}
    return cluster.nomad(tokens["nomad"]), cluster.consul(tokens["consul"])


def tasks(cluster: Cluster) -> list[processes.Process]:
    folder = cluster.run_folder / "nodes"
    return [p for p in processes.running() if p.has_variable("NOMAD_ALLOC_DIR", below=folder)]


def groups_of(cluster: Cluster) -> list[Path]:
    """The task's control groups, if Nomad made some: as an ordinary user it does not."""
    groups = control_groups.of_allocations_below(cluster.run_folder / "nodes")
    placed = Path(f"/proc/{tasks(cluster)[0].pid}/cgroup").read_text()
    assert bool(groups) == ("nomad" in placed), placed
    return groups


def collectors(cluster: Cluster) -> list[int]:
    """The process ids of the tasks' log collectors."""
    folder = cluster.run_folder / "nodes"
    return [
        p.pid
        for p in processes.running()
        if p.argv[1:2] == ("logmon",) and p.has_variable(MARK, below=folder)
    ]


def kill_collector(cluster: Cluster) -> None:
    """Kill the only task's log collector: another comes, and the task goes on."""
    wait_until("one task", lambda: None if len(collectors(cluster)) == 1 else "others end", HANG_S)
    [killed], [task] = collectors(cluster), tasks(cluster)
    os.kill(killed, signal.SIGKILL)
    wait_until(
        "a new log collector",
        lambda: "none" if set(collectors(cluster)) <= {killed} else None,
        60,
    )
    assert [p.pid for p in tasks(cluster)] == [task.pid]


def names(process: processes.Process, text: str) -> bool:
    return any(text in argument for argument in process.argv)


def of_environment(cluster: Cluster) -> list[processes.Process]:
    """Every process that has anything to do with the environment's folder."""
    folder = str(cluster.run_folder)
    return [
        process
        for process in processes.running()
        if names(process, folder) or any(folder in text for text in process.environment)
        if process.pid != os.getpid() and not names(process, "agents.py")
    ]


def metrics(cluster: Cluster, token: str) -> bytes:
    """A Consul agent's metrics as Prometheus reads them."""
    url = cluster.consul_address(16) + "/v1/agent/metrics?format=prometheus"
    request = urllib.request.Request(url, headers={"X-Consul-Token": token})
    context = client_context(cluster.operators_certificate)
    with urllib.request.urlopen(request, timeout=HANG_S, context=context) as response:
        content: bytes = response.read()
    return content


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/nodes", "/v1/agent/members"])
def test_nomad_refuses_a_request_without_a_token(cluster: Cluster, path: str) -> None:
    with pytest.raises(ApiError) as refused:
        cluster.nomad().get(path)
    assert refused.value.status == 403


def test_nomad_refuses_a_job_without_a_token(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        cluster.nomad().put("/v1/jobs", web_job("intruder"))
    assert refused.value.status == 403


def test_consul_refuses_to_read_and_write_without_a_token(cluster: Cluster) -> None:
    consul = cluster.consul()
    assert consul.get("/v1/catalog/services") == {}
    with pytest.raises(ApiError) as refused:
        consul.put("/v1/kv/slipway/routes/intruder", {})
    assert refused.value.status == 403


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/vars", "/v1/agent/self"])
def test_nomad_refuses_a_token_that_it_does_not_know(cluster: Cluster, path: str) -> None:
    assert cluster.nomad(cluster.management["nomad"]).get(path) is not None
    with pytest.raises(ApiError) as refused:
        cluster.nomad(str(uuid.uuid4())).get(path)
    assert refused.value.status == 403


@pytest.mark.parametrize("path", ["/v1/agent/self", "/v1/acl/tokens", "/v1/catalog/services"])
def test_consul_refuses_a_token_that_it_does_not_know(cluster: Cluster, path: str) -> None:
    assert cluster.consul(cluster.management["consul"]).get(path) is not None
    with pytest.raises(ApiError) as refused:
        cluster.consul(str(uuid.uuid4())).get(path)
    assert refused.value.status == 403


@pytest.fixture
def identity(cluster: Cluster) -> Iterator[str]:
    """The workload identity of a running task, which Nomad accepts as a token."""
    nomad, consul = managers(cluster)
    paths = [OWN, f"{OWN}/web/web", f"{OWN}/web/other", ANOTHER, "nomad/jobs", "elsewhere"]
    for path in paths:
        nomad.put(f"/v1/var/{path}", {"Path": path, "Items": {"key": path}})
    asking = web_job(JOB)
    asking["Job"]["TaskGroups"][0]["Tasks"][0]["Identity"] = {"Env": True}
    nomad.put("/v1/jobs", asking)
    wait_until_passing(consul, JOB)
    (task,) = (p for p in tasks(cluster) if names(p, "http.server"))
    yield dict(v.partition("=")[::2] for v in task.environment)["NOMAD_TOKEN"]
    nomad.delete(f"/v1/job/{JOB}?purge=true")
    wait_until("deregistration", lambda: "listed" if passing(consul, JOB) else None, HANG_S)
    for path in paths:
        nomad.delete(f"/v1/var/{path}")


def test_a_task_reads_its_own_variables_and_not_those_of_others(
    cluster: Cluster, identity: str
) -> None:
    workload = cluster.nomad(identity)
    for path in (OWN, f"{OWN}/web/web", "nomad/jobs"):  # the last one is for all jobs
        assert workload.get(f"/v1/var/{path}")["Items"] == {"key": path}
    for path in (ANOTHER, f"{OWN}/web/other", "elsewhere"):
        with pytest.raises(ApiError) as refused:
            workload.get(f"/v1/var/{path}")
        assert refused.value.status == 403
    listed = {variable["Path"] for variable in workload.get("/v1/vars")}
    assert listed == {OWN, f"{OWN}/web/web", "nomad/jobs"}


def test_a_task_cannot_write_variables_or_run_jobs(cluster: Cluster, identity: str) -> None:
    workload = cluster.nomad(identity)
    for path in (OWN, ANOTHER):
        with pytest.raises(ApiError) as refused:
            workload.put(f"/v1/var/{path}", {"Path": path, "Items": {"key": "taken"}})
        assert refused.value.status == 403
    with pytest.raises(ApiError) as refused:
        workload.put("/v1/jobs", web_job("intruder"))
    assert refused.value.status == 403


@pytest.mark.parametrize("token", ["", "5f0bb9b1-0000-4000-8000-000000000000"])
def test_variables_are_read_by_nobody_else(cluster: Cluster, identity: str, token: str) -> None:
    assert identity
    for path in (f"/v1/var/{OWN}", f"/v1/var/{ANOTHER}"):
        with pytest.raises(ApiError) as refused:
            (cluster.nomad(token) if token else cluster.nomad()).get(path)
        assert refused.value.status == 403


def test_a_task_gets_the_role_of_its_job_and_no_more(cluster: Cluster, job: str) -> None:
    task = next(p for p in tasks(cluster) if names(p, "http.server"))
    token = dict(v.partition("=")[::2] for v in task.environment)["CONSUL_TOKEN"]
    consul = cluster.consul(token)
    assert job in consul.get("/v1/catalog/services")
    assert b"consul_" in metrics(cluster, token)
    for forbidden in ("/v1/kv/slipway/routes/any", "/v1/acl/tokens"):
        with pytest.raises(ApiError) as refused:
            consul.get(forbidden)
        assert refused.value.status == 403


def test_a_task_inherits_nothing_of_the_operators_environment(cluster: Cluster, job: str) -> None:
    inherited = [p.environment for p in tasks(cluster)]
    assert inherited
    assert not [v for variables in inherited for v in variables if v.startswith("A_PASSPHRASE=")]


def test_the_permissions_can_be_applied_again(cluster: Cluster) -> None:
    _, consul = managers(cluster)
    before = {kind: consul.get(f"/v1/acl/{kind}") for kind in ("policies", "binding-rules")}
    cluster.apply_permissions()
    cluster.apply_bootstrap()
    for kind, items in before.items():
        assert [item["ID"] for item in consul.get(f"/v1/acl/{kind}")] == [i["ID"] for i in items]


def test_objects_that_leave_the_document_leave_consul_and_those_of_others_stay(
    cluster: Cluster,
) -> None:
    _, consul = managers(cluster)
    consul.put("/v1/acl/policy", {"Name": "by-hand", "Rules": 'node_prefix "" {policy = "read"}'})
    document = cluster.golden("consul-acl")
    extra = {"Name": "once", "Description": "slipway: once", "Rules": ""}
    secrets = {**cluster.operator("consul"), "tokens": cluster.secrets}
    absent = {**document["tokens"][-1], "Description": "slipway: nomad agent gone-9"}
    absent |= {"AccessorID": str(uuid.uuid4()), "SecretID": str(uuid.uuid4())}
    consul.put("/v1/acl/token", absent)
    grown = {**document, "policies": [*document["policies"], extra]}
    cluster.apply("consul_acl.py", grown, secrets)
    assert "once" in {policy["Name"] for policy in consul.get("/v1/acl/policies")}
    cluster.apply("consul_acl.py", document, secrets)
    names = {policy["Name"] for policy in consul.get("/v1/acl/policies")}
    assert "once" not in names
    assert "by-hand" in names
    accessors = {token["AccessorID"] for token in consul.get("/v1/acl/tokens")}
    assert absent["AccessorID"] not in accessors
    assert {token["AccessorID"] for token in document["tokens"]} <= accessors


def test_another_management_token_is_refused_and_not_stored(cluster: Cluster) -> None:
    address = cluster.address(1, 4646)
    document = {"schema_version": 1, "address": address, "leader_timeout_s": 60}
    token = "5f0bb9b1-0000-4000-8000-000000000000"
    secrets = {"schema_version": 1, "management_token": token}
    done = cluster.program("nomad_acl.py", "apply", document=document, secrets=secrets)
    assert done.returncode == 1
    assert "bootstrapped with another token" in done.stderr
    assert token not in done.stdout + done.stderr
    stored = (cluster.run_folder / "tokens/nomad").read_text()
    assert stored == cluster.management["nomad"]


def test_no_file_of_the_environment_can_be_read_by_others(cluster: Cluster, job: str) -> None:
    root = cluster.run_folder
    assert root.stat().st_mode & 0o777 == 0o700
    patterns = ("tokens/*", "supervisor/*", "operator/*", "nodes/*/*/*.json", "nodes/*/*/*/*.pem")
    secret = [path for pattern in patterns for path in root.glob(pattern)]
    assert len(secret) >= 10 + 3 + 5 * 3
    assert [path for path in secret if path.is_file() and path.stat().st_mode & 0o077] == []


def test_no_secret_is_on_a_command_line_or_in_a_log(cluster: Cluster, job: str) -> None:
    secrets = {*cluster.management.values(), *cluster.keys.values(), *cluster.secrets.values()}
    secrets.add((cluster.run_folder / "supervisor/password").read_text())
    keys = cluster.run_folder.rglob("key.pem")
    secrets |= {line for key in keys for line in key.read_text().splitlines()[1:-1]}
    lines = " ".join(argument for p in of_environment(cluster) for argument in p.argv)
    logs = "".join(path.read_text() for path in (cluster.run_folder / "logs").iterdir())
    assert [secret for secret in secrets if secret in lines] == []
    assert [secret for secret in secrets if secret in logs] == []


def test_applying_the_same_document_restarts_nothing(cluster: Cluster) -> None:
    before = cluster.pids()
    cluster.apply("agents.py", cluster.golden("cpu-0"), cluster.agent_secrets("cpu-0"))
    assert cluster.pids() == before


def test_a_changed_configuration_restarts_its_own_agent_and_the_task_goes_on(
    cluster: Cluster, job: str
) -> None:
    before, task = cluster.pids(), tasks(cluster)[0].pid
    document = cluster.golden("cpu-0")
    document["agents"][1]["configuration"]["client"]["meta"]["shelf"] = "7"
    cluster.apply("agents.py", document, cluster.agent_secrets("cpu-0"))
    changed = {name for name, pid in cluster.pids().items() if before[name] != pid}
    assert changed == {"cpu-0-nomad"}
    _, consul = managers(cluster)
    wait_until_passing(consul, job)
    assert [p.pid for p in tasks(cluster)] == [task]


@pytest.mark.parametrize("program", ["cpu-0-consul", "cpu-0-nomad", "server-0-nomad"])
def test_a_killed_agent_comes_back_and_the_task_goes_on(
    cluster: Cluster, job: str, program: str
) -> None:
    before, task = cluster.pids()[program], tasks(cluster)[0].pid
    os.kill(before, signal.SIGKILL)

    def missing() -> str | None:
        record = cluster.status()[program]
        came_back = record["pid"] not in (None, before) and record["ready"]
        return None if came_back else str(record)

    wait_until(program, missing, HANG_S)
    nomad, consul = managers(cluster)
    wait_until("Nomad has a leader", lambda: refusal(nomad), HANG_S)
    wait_until_passing(consul, job)
    assert [p.pid for p in tasks(cluster)] == [task]


def refusal(nomad: Api) -> str | None:
    """What Nomad says to the operator's token; None when it knows it."""
    try:
        nomad.get("/v1/acl/token/self")
    except ApiError as error:
        return str(error)
    return None


def test_a_killed_log_collector_is_replaced_and_the_task_goes_on(
    cluster: Cluster, job: str
) -> None:
    kill_collector(cluster)
    _, consul = managers(cluster)
    web = wait_until_passing(consul, job)
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://{web['Address']}:{web['Port']}/written-afterwards")
    wait_until("the line of the request", lambda: _unlogged(cluster, "/written-afterwards"), HANG_S)


def _unlogged(cluster: Cluster, text: str) -> str | None:
    logs = cluster.run_folder.glob("nodes/cpu-0/nomad/data/alloc/*/alloc/logs/web.stderr.*")
    return None if any(text in log.read_text() for log in logs) else "not in the task's logs"


def test_the_killed_watcher_of_log_collectors_comes_back(cluster: Cluster) -> None:
    def watchers() -> set[int]:
        return {p.pid for p in of_environment(cluster) if names(p, "log_collectors.py")}

    [killed] = watchers()
    os.kill(killed, signal.SIGKILL)
    wait_until("another watcher", lambda: "none" if watchers() <= {killed} else None, HANG_S)


def test_start_recovers_from_a_killed_supervisor_and_the_task_goes_on(
    cluster: Cluster, job: str
) -> None:
    before, task = cluster.pids(), tasks(cluster)[0].pid
    os.kill(cluster.supervisor_pid(), signal.SIGKILL)
    cluster.succeed("agents.py", "start")
    after = cluster.pids()
    assert set(after) == set(before)
    assert set(after.values()).isdisjoint(before.values())
    assert not [pid for pid in before.values() if processes.read(pid)]
    _, consul = managers(cluster)
    wait_until_passing(consul, job)
    assert [p.pid for p in tasks(cluster)] == [task]


def test_stop_leaves_nothing_on_the_machine_and_start_goes_on(cluster: Cluster, job: str) -> None:
    groups = groups_of(cluster)
    if os.getuid() == 0:
        assert mounts.below(cluster.run_folder.resolve()) != []
    cluster.succeed("agents.py", "stop")
    # Else supervisord takes a second for each program that has ended already.
    said = (cluster.run_folder / "logs/supervisord.log").read_text()
    assert "stopped: log-collectors" in said
    assert "waiting for log-collectors to die" not in said
    assert of_environment(cluster) == []
    assert mounts.below(cluster.run_folder.resolve()) == []
    assert [group for group in groups if group.exists()] == []
    for port in (8501, 8300, 8301, 4645, 4646, 4647, 4648, 9001):
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind((f"{cluster.prefix}1", port))
    shutil.rmtree(cluster.scratch)  # as a reboot does
    (cluster.run_folder / "supervisor/supervisord.pid").write_text("1\n")
    cluster.succeed("agents.py", "start")
    _, consul = managers(cluster)
    wait_until_passing(consul, job)


def test_a_task_whose_agents_were_all_killed_is_ended_by_stop(cluster: Cluster, job: str) -> None:
    task = tasks(cluster)[0].pid
    groups = groups_of(cluster)
    for pid in (cluster.supervisor_pid(), *cluster.pids().values()):
        os.kill(pid, signal.SIGKILL)
    assert processes.read(task) is not None
    cluster.succeed("agents.py", "stop")
    assert of_environment(cluster) == []
    assert mounts.below(cluster.run_folder.resolve()) == []
    assert [group for group in groups if group.exists()] == []
    cluster.succeed("agents.py", "start")
    _, consul = managers(cluster)
    wait_until_passing(consul, job)


@pytest.fixture
def spare(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The document of one more node, at an address of its own; removed afterwards."""
    document = cluster.golden("cpu-0")
    text = json.dumps(document).replace(f"{cluster.prefix}16", f"{cluster.prefix}99")
    moved: dict[str, Any] = {**json.loads(text), "host": "cpu-9"}
    del moved["departure"]
    yield moved
    cluster.succeed("agents.py", "remove", document=moved)
    assert not (cluster.run_folder / "nodes/cpu-9").exists()


def test_a_port_that_another_program_holds_is_named_at_once(
    cluster: Cluster, spare: dict[str, Any]
) -> None:
    secrets = cluster.agent_secrets("cpu-0")
    with socket.socket() as taken:
        taken.bind((f"{cluster.prefix}99", 8501))
        taken.listen()
        done = cluster.program("agents.py", "apply", document=spare, secrets=secrets)
    assert done.returncode == 1
    assert f"consul on cpu-9 cannot listen on {cluster.prefix}99:8501" in done.stderr


def test_an_agent_that_does_not_start_is_named_with_the_end_of_its_log(
    cluster: Cluster, spare: dict[str, Any]
) -> None:
    consul = spare["agents"][0]
    consul["configuration"]["bind_adr"] = "misspelt"
    consul["ready_timeout_s"] = 3
    secrets = cluster.agent_secrets("cpu-0")

    def without_the_key() -> str | None:
        """A busy machine may start Consul, whose log stays, only after the program has given up."""
        done = cluster.program("agents.py", "apply", document=spare, secrets=secrets)
        assert done.returncode == 1
        assert "consul on cpu-9" in done.stderr
        return None if "bind_adr" in done.stderr else done.stderr

    wait_until("the key that is wrong", without_the_key, HANG_S)


def test_a_node_whose_removal_was_interrupted_takes_work_again_when_it_is_applied(
    cluster: Cluster, job: str
) -> None:
    nomad, _ = managers(cluster)
    document = cluster.golden("cpu-0")
    (node,) = nomad.get("/v1/nodes")
    with cluster.started("agents.py", "remove", document) as removal:
        wait_until(
            "the drain",
            lambda: None if nomad.get(f"/v1/node/{node['ID']}")["DrainStrategy"] else "none",
            HANG_S,
        )
        removal.kill()
    cluster.apply("agents.py", document, cluster.agent_secrets("cpu-0"))
    after = nomad.get(f"/v1/node/{node['ID']}")
    assert (after["SchedulingEligibility"], after["DrainStrategy"]) == ("eligible", None)
    assert not (cluster.run_folder / "nodes/cpu-0/leaving").exists()


def test_a_removed_node_leaves_the_cluster_and_the_others_stay(cluster: Cluster, job: str) -> None:
    nomad, consul = managers(cluster)
    document = cluster.golden("consul-acl")
    others = [each for each in document["tokens"] if not each["Description"].endswith(" cpu-0")]
    secrets = {**cluster.operator("consul"), "tokens": cluster.secrets}
    cluster.apply("consul_acl.py", {**document, "tokens": others}, secrets)  # removals come last
    cluster.succeed("agents.py", "remove", document=cluster.golden("cpu-0"))
    assert "blocked by ACLs" not in (cluster.run_folder / "logs/cpu-0-consul.log").read_text()
    tokens = [token["Description"] for token in consul.get("/v1/acl/tokens")]
    assert [description for description in tokens if "cpu-0" in description] == []
    assert nomad.get("/v1/nodes") == []
    members = {node["Node"] for node in consul.get("/v1/catalog/nodes")}
    assert members == {"server-0"}
    assert set(cluster.status()) == {
        "server-0-consul",
        "server-0-nomad",
        "server-0-workload-keys",
    }
    assert not (cluster.run_folder / "nodes/cpu-0").exists()
    cluster.apply_permissions()
    cluster.apply("agents.py", cluster.golden("cpu-0"), cluster.agent_secrets("cpu-0"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_everything_works_as_an_ordinary_user() -> None:
    with running_cluster("127.95.0.1", owner=NOBODY) as cluster:
        nomad, consul = managers(cluster)
        nomad.put("/v1/jobs", web_job(JOB))
        wait_until_passing(consul, JOB)
        assert Path(f"/proc/{tasks(cluster)[0].pid}").stat().st_uid == NOBODY
        kill_collector(cluster)
        cluster.succeed("agents.py", "stop")
        assert of_environment(cluster) == []
        assert mounts.below(cluster.run_folder.resolve()) == []
