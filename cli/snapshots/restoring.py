"""The steps of a restore besides Pulumi: deciding whether servers are lost, running the program of
services/operator that restores, and waiting until everybody is back."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from cli.clusters.both import Clusters, clusters
from cli.clusters.consul import ALIVE
from cli.console import say
from cli.environment import Environment, inherited, token_in
from cli.errors import WRONG_INPUT, CliError
from cli.hosts.over_ssh import OverSsh, UnreachableError, known_way
from cli.progress import telling
from cli.reach.forwards import variables_of
from components.consul.acl import SNAPSHOTS_ROLE
from components.consul.agent_config import NAME as CONSUL
from components.consul.agent_config import SERVICE
from components.hosts.delivery import BOOTS_WITHIN_S, run_folder
from components.snapshots.job import JOB_ID
from slipway.plan.platform import PlatformPlan, SshPlan

DOCUMENT_VERSION = SECRETS_VERSION = 1  # schemas/restore.schema.json
ANSWERS_S = 60.0
EMPTIED_S = 120.0
LEADER_TIMEOUT_S = 120
BACK_S = 300.0  # agents ask again after 30 s, and Consul looks at its members once a minute
POLL_S = 0.5
BETWEEN_LOOKS_S = 2.0  # at a machine that starts
REFUSED = (401, 403)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of the servers: whether both clusters have a leader, how many jobs Nomad has, and
    which servers have data."""

    led: bool
    jobs: int
    with_data: Sequence[str]


def standing(plan: PlatformPlan, ssh: SshPlan, over_ssh: OverSsh, credentials: Path) -> Standing:
    """CliError if a server does not answer over SSH."""
    led = have_leaders(plan, credentials)
    with clusters(plan, credentials) as both:
        jobs = _jobs(both) if led else 0
    with_data = []
    for server in plan.servers:
        way, look = known_way(ssh, server.name), _data_of(plan, server.name)
        if over_ssh.ask(server.name, way, look, within_s=ANSWERS_S).strip():
            with_data.append(server.name)
    return Standing(led=led, jobs=jobs, with_data=with_data)


def have_leaders(plan: PlatformPlan, credentials: Path) -> bool:
    with clusters(plan, credentials) as both:
        return both.consul.has_leader() and both.nomad.has_leader()


def wait_for_machines(plan: PlatformPlan, ssh: SshPlan, over_ssh: OverSsh) -> None:
    """Until every server answers with its own key: a new machine has another one at first.
    CliError with what the last one says."""
    deadline_s = time.monotonic() + BOOTS_WITHIN_S
    for server in plan.servers:
        _wait_for_machine(server.name, ssh, over_ssh, deadline_s)


def _wait_for_machine(server: str, ssh: SshPlan, over_ssh: OverSsh, deadline_s: float) -> None:
    with telling(lambda: f"waiting for {server}, which starts"):
        while not _answers(server, ssh, over_ssh, deadline_s):
            time.sleep(BETWEEN_LOOKS_S)


def _answers(server: str, ssh: SshPlan, over_ssh: OverSsh, deadline_s: float) -> bool:
    try:
        over_ssh.ask(server, known_way(ssh, server), "true", within_s=ANSWERS_S)
    except UnreachableError:
        if time.monotonic() > deadline_s:
            raise
        return False
    return True


def to_be_emptied(found: Standing, environment: str, *, force: bool) -> Sequence[str]:
    """The servers whose data is deleted first: without a leader they would not join the others.
    CliError if something would be lost and `force` does not say that it may be."""
    forced = f"slipway restore -s {environment} --force"
    if found.led and found.jobs and not force:
        raise CliError(
            f'the clusters of "{environment}" are well: both have a leader, and Nomad has'
            f" {found.jobs} jobs; nothing was changed",
            fix=f"to go back to a snapshot all the same, and lose what is newer: {forced}",
            exit_code=WRONG_INPUT,
        )
    if not found.led and found.with_data and not force:
        raise CliError(
            f"the clusters have no leader, but {', '.join(found.with_data)} still have data, which"
            " may be newer than the snapshot; nothing was changed",
            fix="start the other servers, if they have their disks (docs/operations/lost-quorum.md)"
            f"; to delete this data and go back to a snapshot: {forced}",
            exit_code=WRONG_INPUT,
        )
    return [] if found.led else found.with_data


def empty(ssh: SshPlan, over_ssh: OverSsh, removals: Mapping[str, Sequence[str]]) -> None:
    """Removes the agents of servers with their data, by the commands in Pulumi's state."""
    for server, commands in removals.items():
        for command in commands:
            over_ssh.ask(server, known_way(ssh, server), command, within_s=EMPTIED_S)
        say(f"{server} has no data any more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restorer:
    """Runs services/operator/restore_snapshot.py on this machine, as the operator."""

    environment: Environment
    plan: PlatformPlan
    files: Mapping[str, Path]  # of the snapshot, by cluster

    def verify(self) -> None:
        """CliError if a file is damaged."""
        self._run("verify")

    def apply(self) -> None:
        """Gives both clusters their states."""
        tokens = {system: token_in(self.environment.access, system) for system in self.files}
        self._run("apply", {"schema_version": SECRETS_VERSION, **tokens})

    def _run(self, action: str, secrets: Mapping[str, object] | None = None) -> None:
        program = self.environment.checkout / "services" / "operator" / "restore_snapshot.py"
        # Standard library only, so this program's own interpreter will do.
        done = subprocess.run(
            [sys.executable, "-B", str(program), action],
            env={
                **inherited(),
                **self.environment.host_variables(self.environment.access),
                **variables_of(self.plan),
                "SLIPWAY_DOCUMENT": json.dumps(self._document()),
            },
            input=json.dumps(secrets or {}),
            capture_output=True,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            say(f"  {line}")
        if done.returncode:
            raise CliError(
                done.stderr.strip(),
                fix=f"run slipway restore -s {self.environment.name} again; --snapshot NAME takes"
                " another snapshot",
            )

    def _document(self) -> dict[str, object]:
        addresses = {
            "consul": self.plan.operator.consul.url,
            "nomad": self.plan.operator.nomad.url,
        }
        return {
            "schema_version": DOCUMENT_VERSION,
            "leader_timeout_s": LEADER_TIMEOUT_S,
            **{
                system: {"address": addresses[system], "file": str(file)}
                for system, file in self.files.items()
            },
        }


def register_servers_again(plan: PlatformPlan, both: Clusters) -> None:
    """Takes the lost servers out of Consul's restored catalog. The new ones have other IDs, and
    Consul would not let them take the names of nodes that it believes to be well."""
    for server in _not_registered(plan, both):
        both.consul.deregister(server)


def end_the_snapshots_run(both: Clusters) -> None:
    """Ends the run that took the snapshot. In the restored state it goes on, which would prevent
    all later ones, and its token, which may change all permissions, would stay for ever."""
    both.nomad.end_runs(JOB_ID)
    both.consul.revoke_tokens_of(SNAPSHOTS_ROLE)


def wait_for_everybody(plan: PlatformPlan, both: Clusters) -> None:
    """Waits until every client is back and every server registered. CliError with what is
    missing."""
    deadline_s, missing = time.monotonic() + BACK_S, list[str]()
    with telling(lambda: ", ".join(missing)):
        while missing := list(_missing(plan, both)):
            if time.monotonic() > deadline_s:
                raise CliError(
                    f"the states are restored, but after {BACK_S:.0f} s {', '.join(missing)}",
                    fix=f"slipway hosts -s {plan.environment} shows each host; one that joined"
                    " after the snapshot, or was off for a day, needs slipway admit HOST"
                    f" -s {plan.environment}",
                )
            time.sleep(POLL_S)  # that a client is connected sends no event


def _missing(plan: PlatformPlan, both: Clusters) -> Iterator[str]:
    try:
        alive = {each["Name"] for each in both.consul.members() if each["Status"] == ALIVE}
        unregistered = _not_registered(plan, both)
        nodes = {str(each["Name"]): each for each in both.nomad.nodes() if _ready(each)}
        names = [node.name for pool in plan.pools for node in pool.hosts]
        connected = {name for name in names if name in nodes and _reached(both, nodes[name])}
    except httpx.HTTPError as error:
        yield f"the servers do not answer: {error or type(error).__name__}"
        return
    servers = [server.name for server in plan.servers]
    yield from _absent("not in Consul", [*servers, *names], alive - set(unregistered))
    yield from _absent("not in Nomad", names, connected)


def _not_registered(plan: PlatformPlan, both: Clusters) -> list[str]:
    """The servers that are missing in Consul's catalog, or listed with the ID of an earlier server.
    The leader registers one of these services, and the server's agent the other."""
    living = {each["Name"]: each["Tags"].get("id") for each in both.consul.members()}
    catalogs = [both.consul.nodes_with(service) for service in (CONSUL, SERVICE)]
    names = [server.name for server in plan.servers]
    return [
        name
        for name in names
        if any(catalog.get(name, "") != living.get(name) for catalog in catalogs)
    ]


def _absent(what: str, expected: Sequence[str], found: Collection[str]) -> Iterator[str]:
    absent = [name for name in expected if name not in found]
    if absent:
        yield f"{what}: {', '.join(absent)}"


def _ready(node: Mapping[str, object]) -> bool:
    return node["Status"] == "ready"


def _reached(both: Clusters, node: Mapping[str, object]) -> bool:
    return both.nomad.reaches(str(node["ID"]))


def _jobs(both: Clusters) -> int:
    """0 also where Nomad does not know the operator's token: nothing was restored there yet."""
    try:
        return len(both.nomad.jobs())
    except httpx.HTTPStatusError as error:
        if error.response.status_code in REFUSED:
            return 0
        raise


def _data_of(plan: PlatformPlan, server: str) -> str:
    folder = f"{run_folder(plan.environment)}/nodes/{server}"
    folders = shlex.join(f"{folder}/{agent}/data" for agent in ("consul", "nomad"))
    return f"ls -d {folders} 2>/dev/null || true"
