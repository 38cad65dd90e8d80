"""Agents as systemd units on hosts of their own: from the first document to the last removal.

The tests are in the order of a host's life, and the last ones end it.
"""

from __future__ import annotations

import copy
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from services.program.tests.certificates import own_der
from tests.hosts.bed import Bed, Host
from tests.hosts.cluster import ADDRESSES, RUN, SCRATCH, HostCluster
from tests.waiting import HANG_S
from toolchain.settings import default_cache

pytestmark = [pytest.mark.hosts, pytest.mark.binaries]

SERVER, NODE = ADDRESSES
AGENTS = {SERVER: ("consul", "nomad", "workload-keys"), NODE: ("consul", "nomad")}
USERS = {"consul": "slipway-consul", "nomad": "slipway-nomad", "workload-keys": "slipway-keys"}
APIS = [(SERVER, 8501), (SERVER, 4646), (NODE, 8501), (NODE, 4646)]
JOB: dict[str, Any] = {
    "ID": "going-on",
    "Datacenters": ["dev"],
    "NodePool": "cpu",
    "TaskGroups": [
        {
            "Name": "going-on",
            "Tasks": [
                {
                    "Name": "going-on",
                    "Driver": "raw_exec",
                    "Config": {"command": "/usr/bin/sleep", "args": ["86400"]},
                    "Resources": {"CPU": 50, "MemoryMB": 16},
                }
            ],
        }
    ],
}
SLOW = "/usr/bin/sleep 43200"
SLOW_TO_END = copy.deepcopy(JOB) | {"ID": "slow-to-end"}
SLOW_TO_END["TaskGroups"][0]["Tasks"][0] |= {
    "Config": {"command": "/bin/sh", "args": ["-c", f"trap '' TERM; {SLOW}; exit 0"]},
    "KillTimeout": 30_000_000_000,
}
EXPOSURE = 16  # in tenths, of 100: `systemd-analyze security`
# What a host writes by itself, and the account files' own locks and copies.
VOLATILE = ("/var/log/", "/var/lib/systemd/", "/var/tmp/", "/var/cache/", "/etc/.pwd.lock")


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return ADDRESSES


@pytest.fixture(scope="module")
def found(hosts: Bed) -> dict[str, str]:
    """What is on the hosts before the first document."""
    return {}


@pytest.fixture(scope="module")
def cluster(
    hosts: Bed, found: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> HostCluster:
    cluster = HostCluster(hosts=hosts.hosts, operator=tmp_path_factory.mktemp("operator"))
    cluster.place(tools(cluster))
    found |= {name: listing(host) for name, host in hosts.hosts.items()}
    cluster.up()
    return cluster


def tools(cluster: HostCluster) -> dict[str, Path]:
    folder = default_cache() / "tools" / "bin"
    places = {
        tool: folder / f"{tool}-{version}" / tool for tool, version in cluster.plan.tools.items()
    }
    for place in places.values():
        if not place.exists():
            pytest.skip(f"no {place.name}: run `slipway tools`")
    return places


@pytest.fixture
def task(cluster: HostCluster) -> str:
    """The process id of a task that goes on."""
    cluster.ask(NODE, 4646, "/v1/jobs", put={"Job": JOB})
    return until("a task", lambda: running_task(cluster))


def running_task(cluster: HostCluster, command: str = "/usr/bin/sleep 86400") -> str:
    return cluster.hosts[NODE].ssh(f"pgrep --full '^{command}' || true").strip()


Answer = TypeVar("Answer")


def until(what: str, ask: Callable[[], Answer]) -> Answer:
    """The first true answer. An API that does not answer yet is asked again."""
    deadline_s = time.monotonic() + HANG_S
    answer: Any = None
    while time.monotonic() < deadline_s:
        try:
            if answer := ask():
                return answer
        except (httpx.HTTPError, RuntimeError) as error:
            answer = error
        time.sleep(0.1)  # no event of a host reaches this machine
    raise AssertionError(f"{what}: {answer}")


def listing(host: Host) -> str:
    """Every file and user, and every unit that is known or has failed."""
    there = "/etc /var /opt $(ls -d /run/slipway 2>/dev/null)"
    files = host.ssh(f"find {there} -xdev -printf '%p %y %m %u %g %l\\n'").splitlines()
    kept = sorted(line for line in files if not line.startswith(VOLATILE))
    users = host.ssh("getent passwd && getent group && systemctl list-unit-files --no-legend")
    written = sorted(map(str, host.written("usr")))
    return "\n".join([*kept, *written, users, host.ssh("systemctl --failed --no-legend")])


def unit(agent: str) -> str:
    return f"slipway-dev-{agent}.service"


def shown_certificate(host: str, port: int) -> bytes:
    return ssl.PEM_cert_to_DER_cert(
        ssl.get_server_certificate((ADDRESSES[host], port), timeout=HANG_S)
    )


def test_the_hosts_form_one_cluster(cluster: HostCluster) -> None:
    members = cluster.ask(SERVER, 8501, "/v1/catalog/nodes")
    assert {member["Node"] for member in members} == {SERVER, NODE}
    nodes = until("a node", lambda: cluster.ask(SERVER, 4646, "/v1/nodes"))
    assert [(node["Name"], node["Status"]) for node in nodes] == [(NODE, "ready")]


@pytest.mark.parametrize(("host", "port"), APIS)
def test_agents_answer_only_those_with_a_certificate_of_the_platform(
    cluster: HostCluster, host: str, port: int
) -> None:
    path = "/v1/status/leader" if port == 8501 else "/v1/agent/health"
    assert cluster.ask(host, port, path)
    stranger = ssl.create_default_context(cafile=cluster.operator / "operator/ca.pem")
    stranger.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    with pytest.raises(httpx.HTTPError, match=r"(?i)certificate required"):
        httpx.get(cluster.url(host, port) + path, verify=stranger)


def test_agents_are_units_that_start_at_boot(cluster: HostCluster) -> None:
    for name, agents in AGENTS.items():
        host = cluster.hosts[name]
        names = " ".join(unit(agent) for agent in agents)
        assert host.ssh(f"systemctl is-active {names}").split() == ["active"] * len(agents)
        assert host.ssh(f"systemctl is-enabled {names}").split() == ["enabled"] * len(agents)
        assert host.ssh("systemctl is-system-running") == "running\n"


def test_every_agent_but_the_one_that_runs_tasks_is_a_user_without_any_privilege(
    cluster: HostCluster,
) -> None:
    for host in AGENTS:
        for agent, pid in cluster.pids(host).items():
            status = status_of(cluster.hosts[host], pid)
            root = (host, agent) == (NODE, "nomad")
            assert status["User"] == ("root" if root else USERS[agent])
            assert status["NoNewPrivs"] == ("0" if root else "1")
            assert (int(status["CapBnd"], 16) == 0) == (not root)


def test_the_exposure_of_agents_without_tasks_is_low(cluster: HostCluster) -> None:
    for name, agents in ((SERVER, AGENTS[SERVER]), (NODE, ("consul", "log-collectors"))):
        units = " ".join(unit(agent) for agent in agents)
        told = f"systemd-analyze security --no-pager --threshold={EXPOSURE} {units}"
        assert "→ Overall exposure level" in cluster.hosts[name].ssh(told)


def status_of(host: Host, pid: int) -> dict[str, str]:
    """/proc/<pid>/status, with the user's name."""
    lines = host.ssh(f"cat /proc/{pid}/status; stat -c 'User:%U' /proc/{pid}").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_limits_are_in_force_for_agents_and_tasks(cluster: HostCluster, task: str) -> None:
    host = cluster.hosts[NODE]
    agents = cluster.pids(NODE)
    allowed, *given = (
        limits(host, pid) for pid in ("1", str(agents["consul"]), str(agents["nomad"]), task)
    )
    # This machine may allow less than the unit asks for.
    files = str(min(65536, int(allowed["Max open files"])))
    assert [each["Max open files"] for each in given] == [files] * 3
    assert given[-1]["Max locked memory"] == allowed["Max locked memory"]
    asked = host.ssh(f"systemctl show -p LimitNOFILE,LimitMEMLOCK,TasksMax {unit('nomad')}").split()
    assert sorted(asked) == ["LimitMEMLOCK=infinity", "LimitNOFILE=65536", "TasksMax=infinity"]


def limits(host: Host, pid: str) -> dict[str, str]:
    """The hard limits of a process."""
    lines = host.ssh(f"tail -n +2 /proc/{pid}/limits").splitlines()
    return {line[:26].strip(): line[47:68].strip() for line in lines}


def test_a_task_is_free_of_its_agents_sandbox(cluster: HostCluster, task: str) -> None:
    host = cluster.hosts[NODE]
    same = f"readlink /proc/1/ns/mnt /proc/{task}/ns/mnt | uniq | wc -l"
    assert host.ssh(same) == "1\n", "mounts of a task would be out of the host's reach"
    assert host.ssh(f"cat /proc/{task}/oom_score_adj") == "0\n"
    assert "NoNewPrivs:\t0" in host.ssh(f"grep NoNewPrivs /proc/{task}/status")


def test_secrets_are_readable_by_their_agent_alone(cluster: HostCluster) -> None:
    for host, agents in AGENTS.items():
        for agent in agents:
            folder = f"{RUN}/nodes/{host}/{agent}"
            user = "root" if (host, agent) == (NODE, "nomad") else USERS[agent]
            files = cluster.hosts[host].ssh(
                f"stat -c %U:%a {folder}/secrets.json {folder}/certificate/key.pem"
            )
            assert files.split() == [f"{user}:600"] * 2
        open_to_others = f"find {RUN} -perm /066 -not -type l -not -path '*/data/*'"
        assert cluster.hosts[host].ssh(open_to_others) == ""
    file = f"{RUN}/nodes/{SERVER}/consul/secrets.json"
    other = f"setpriv --reuid={USERS['nomad']} --clear-groups cat {file}"
    with pytest.raises(RuntimeError, match="Permission denied"):
        cluster.hosts[SERVER].ssh(other)


def test_no_secret_is_in_the_journal_a_unit_or_a_command_line(cluster: HostCluster) -> None:
    for host, secrets in (
        (SERVER, cluster.server_secrets()),
        (NODE, cluster.node_secrets()),
    ):
        kept = [text for text in strings(secrets) if len(text) > 30 and "BEGIN CERT" not in text]
        assert len(kept) >= 4
        said = cluster.hosts[host].ssh(
            "journalctl --quiet --output=cat; systemctl show 'slipway*'; "
            "systemctl cat 'slipway*'; ps -ww -eo args; cat /proc/[0-9]*/environ | tr '\\0' '\\n'"
        )
        assert unit("consul") in said
        assert [secret for secret in kept if secret in said] == []


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    if not isinstance(value, str):
        return []
    # One line of a key is enough to know it by.
    return [value.splitlines()[1] if "PRIVATE KEY" in value else value]


def test_applying_again_restarts_nothing_and_has_systemd_read_nothing(
    cluster: HostCluster,
) -> None:
    before = {host: (cluster.pids(host), reloads(cluster.hosts[host])) for host in AGENTS}
    cluster.apply(SERVER, cluster.consul_document(), cluster.server_secrets())
    cluster.apply(SERVER, cluster.nomad_document(), cluster.server_secrets())
    cluster.apply(NODE, cluster.node_document(), cluster.node_secrets())
    after = {host: (cluster.pids(host), reloads(cluster.hosts[host])) for host in AGENTS}
    assert after == before
    assert all(count > 0 for _, count in before.values())


def reloads(host: Host) -> int:
    """How often systemd has read its units again."""
    return host.ssh("journalctl --quiet --output=cat _PID=1").splitlines().count("Reloading.")


def test_a_changed_configuration_restarts_its_own_agent_and_the_task_goes_on(
    cluster: HostCluster, task: str
) -> None:
    before = cluster.pids(NODE)
    document = cluster.node_document()
    document["agents"][1]["configuration"]["client"]["meta"]["shelf"] = "7"
    cluster.apply(NODE, document, cluster.node_secrets())
    after = cluster.pids(NODE)
    assert {agent for agent in after if after[agent] != before[agent]} == {"nomad"}
    assert running_task(cluster) == task
    until_ready(cluster)


def until_ready(cluster: HostCluster) -> None:
    """Until the server knows the node again."""
    until(
        "a node that is ready",
        lambda: [n for n in cluster.ask(SERVER, 4646, "/v1/nodes") if n["Status"] == "ready"],
    )


@pytest.mark.parametrize(
    ("host", "agents"),
    [(SERVER, AGENTS[SERVER]), (NODE, ("consul",)), (NODE, ("nomad",))],
    ids=["server", "consul", "nomad"],
)
def test_killed_agents_come_back_and_the_task_goes_on(
    cluster: HostCluster, task: str, host: str, agents: tuple[str, ...]
) -> None:
    before = cluster.pids(host)
    cluster.hosts[host].ssh(f"kill -KILL {' '.join(str(before[agent]) for agent in agents)}")

    def back() -> bool:
        after = cluster.status(host)
        ready = all(record["ready"] for record in after.values())
        return ready and all(after[agent]["pid"] != before[agent] for agent in agents)

    until("agents", back)
    assert running_task(cluster) == task
    until_ready(cluster)


def test_a_renewed_certificate_is_reloaded_by_consul_restarts_nomad_and_the_task_goes_on(
    cluster: HostCluster, task: str
) -> None:
    before = cluster.pids(NODE)
    cluster.certificates[NODE] = cluster.issue(NODE)
    cluster.apply(NODE, cluster.node_document(), cluster.node_secrets())
    after = cluster.pids(NODE)
    assert {agent for agent in after if after[agent] != before[agent]} == {"nomad"}
    renewed = own_der(cluster.certificates[NODE]["cert.pem"])
    assert [shown_certificate(NODE, port) for port in (8501, 4646)] == [renewed, renewed]
    assert running_task(cluster) == task


def test_an_agent_that_does_not_start_is_named_with_the_end_of_its_log(
    cluster: HostCluster, task: str
) -> None:
    document = cluster.node_document()
    document["agents"][0]["configuration"]["bind_adr"] = "misspelt"
    with pytest.raises(RuntimeError, match=r"(?s)consul on cpu-0 ended.*bind_adr"):
        cluster.apply(NODE, document, cluster.node_secrets())
    cluster.apply(NODE, cluster.node_document(), cluster.node_secrets())
    assert running_task(cluster) == task


def test_a_killed_log_collector_is_replaced_and_the_task_goes_on(
    cluster: HostCluster, task: str
) -> None:
    host = cluster.hosts[NODE]
    [collector] = host.ssh("pgrep --full '[n]omad logmon'").split()
    host.ssh(f"kill -KILL {collector}")
    living = "pgrep --full '[n]omad logmon' || true"
    until("another collector", lambda: set(host.ssh(living).split()) - {collector})
    assert running_task(cluster) == task


def test_after_a_reboot_the_agents_start_by_themselves(cluster: HostCluster, hosts: Bed) -> None:
    for name in AGENTS:
        hosts.hosts[name].end()
        hosts.start(name, same_disk=True)
    hosts.wait_until_ready()
    until("a task", lambda: running_task(cluster))
    until_ready(cluster)
    for host, agents in AGENTS.items():
        assert {a for a, r in cluster.status(host).items() if r["ready"]} == set(agents)
    node = cluster.hosts[NODE]
    assert node.ssh(f"stat -c %a:%U {SCRATCH}") == "700:root\n"
    assert node.ssh(f"systemctl is-active {unit('log-collectors')}") == "active\n"
    order = node.ssh(f"journalctl --quiet --output=cat --unit {unit('nomad')} | head -n 3")
    assert "prerequisites met" in order, "Nomad starts after Consul's agent is in the catalog"


def test_what_is_stopped_stays_stopped_and_starts_again(cluster: HostCluster) -> None:
    host = cluster.hosts[NODE]
    cluster.agents(NODE, "stop")
    assert running_task(cluster) == ""
    assert host.ssh("pgrep --full '[/]opt/slipway' || true") == ""
    assert host.ssh("systemctl is-system-running") == "running\n"
    cluster.agents(NODE, "start")
    assert all(record["ready"] for record in cluster.status(NODE).values())


@pytest.mark.soak
def test_a_removal_that_was_killed_while_it_drained_is_undone_by_the_next_document(
    cluster: HostCluster,
) -> None:
    cluster.ask(NODE, 4646, "/v1/jobs", put={"Job": SLOW_TO_END})
    until("a slow task", lambda: running_task(cluster, SLOW))
    (before,) = nodes(cluster)
    node = cluster.node_document()
    node["departure"]["drain_timeout_s"] = 20  # a task that never ends is waited for so long
    with ThreadPoolExecutor() as beside:
        removal = beside.submit(cluster.agents, NODE, "remove", node)
        until("a drain", lambda: [found["Drain"] for found in nodes(cluster)] == [True])
        cluster.hosts[NODE].ssh("kill -KILL $(pgrep --full '[a]gents.py remove')")
        with pytest.raises(RuntimeError):
            removal.result()
    assert [found["Drain"] for found in nodes(cluster)] == [True]
    assert running_task(cluster, SLOW), "it may finish"
    said = cluster.apply(NODE, node, cluster.node_secrets())
    assert "joins as a new node" in said
    # The servers still know the node that it was before.
    until("a node that takes work", lambda: joined(cluster, since=before["ID"]))
    until("a task", lambda: running_task(cluster))
    # Only a removal makes the client leave: later ends of the agent are ordinary again.
    shown = cluster.hosts[NODE].ssh(f"systemctl show --property KillSignal {unit('nomad')}")
    assert shown == "KillSignal=15\n"


def joined(cluster: HostCluster, *, since: str) -> bool:
    """Whether a node is ready and takes work that had another id before."""
    found = [each for each in nodes(cluster) if each["ID"] != since]
    return [(each["Status"], each["Drain"]) for each in found] == [("ready", False)]


def nodes(cluster: HostCluster) -> list[dict[str, Any]]:
    return list(cluster.ask(SERVER, 4646, "/v1/nodes"))


def test_the_removal_of_everything_leaves_the_hosts_as_found(
    cluster: HostCluster, found: dict[str, str]
) -> None:
    node = cluster.node_document()
    node["departure"]["drain_timeout_s"] = 2  # its task has nowhere to go
    cluster.agents(NODE, "remove", node)
    cluster.agents(SERVER, "remove", cluster.nomad_document())
    cluster.agents(SERVER, "remove", cluster.consul_document())
    for name, host in cluster.hosts.items():
        left = set(listing(host).splitlines()) ^ set(found[name].splitlines())
        assert left == set()
        assert host.ssh("pgrep --full '[s]lipway' || true") == ""
