"""The check of hosts' fabric (services/fabric): asking for it, and waiting for the verdict."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from cli.clusters.groups import members_of
from cli.clusters.nomad import ENDED, Nomad
from cli.clusters.servers import must_answer
from cli.errors import WRONG_INPUT, CliError
from cli.hosts.roster import member
from cli.progress import telling
from components.fabric.document import job_id
from components.fabric.jobs import JOB_ID
from components.fabric.metadata import (
    CHECK,
    HOST_REPORT,
    LISTEN,
    MEASURE,
    REQUEST,
    HostFabric,
    pool_report,
    read_fabric,
)
from slipway.plan.platform import PlatformPlan

SCHEMA_VERSION = 1  # schemas/check.schema.json
# Both hosts try for half a minute to find each other; RDMA's tools run one by one for each rail.
ANSWERS_S = 180.0
PAUSE_S = 0.5

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A host that is asked, by its node's ID. `report` is its last."""

    name: str
    node: str
    report: Mapping[str, Any]


def check(nomad: Nomad, plan: PlatformPlan, names: Sequence[str]) -> JsonObject:
    """The document of `slipway check`: one host by itself, or two with each other too."""
    if len(set(names)) < len(names):
        raise _wrong(f"{names[0]} cannot be measured with itself", "name two hosts, or one")
    with must_answer("Nomad", "nothing was checked"):
        nodes = {name: _node(nomad, plan, name) for name in names}
        pool = _pool_of(plan, nodes)
        hosts = [_host(nomad, plan, name, node["ID"], pool) for name, node in nodes.items()]
        if len(hosts) > 1:
            for host in hosts:
                _must_be_free(nomad, host)
        request = uuid.uuid4().hex[:12]
        for host, asked in zip(hosts, _requests(request, hosts), strict=True):
            nomad.set_metadata(host.node, {REQUEST: json.dumps(asked, sort_keys=True)})
        with telling(lambda: f"{' and '.join(names)}: being checked"):
            verdicts = _wait(nomad, plan, hosts, request)
        findings = _findings(nomad, pool, names)
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": plan.environment,
        "pool": pool,
        "hosts": [_row(name, each) for name, each in verdicts.items()],
        "findings": findings,
    }


def _pool_of(plan: PlatformPlan, nodes: Mapping[str, JsonObject]) -> str:
    """The pool of the hosts, by their nodes in Nomad."""
    known = {pool.name: pool for pool in plan.pools if pool.fabric_check is not None}
    for name, node in nodes.items():
        if node["NodePool"] not in known:
            raise _wrong(
                f"{name} is not checked: no model takes several hosts of pool {node['NodePool']},"
                " and only members of groups use the fabric",
                f"name a host of pool {' or '.join(sorted(known))}"
                if known
                else "give a model `parallel: {pipeline: N}` first",
            )
    (first, pool), *others = [(name, str(node["NodePool"])) for name, node in nodes.items()]
    for name, other in others:
        if other != pool:
            raise _wrong(
                f"{first} is in pool {pool} and {name} in {other}: no group spans pools",
                "name two hosts of one pool",
            )
    return pool


def _node(nomad: Nomad, plan: PlatformPlan, name: str) -> JsonObject:
    node = nomad.node_named(name)
    if node is not None:
        return node
    if member(plan, name).role == "server":
        raise _wrong(f"{name} is a server: it takes no members", "name a node")
    raise CliError(
        f"{name} is in the files of {plan.environment}, but Nomad does not know it",
        fix=f"slipway hosts -s {plan.environment} shows what it lacks; slipway up lets it join",
    )


def _host(nomad: Nomad, plan: PlatformPlan, name: str, node: str, pool: str) -> Checked:
    for allocation in nomad.allocations_of(job_id(pool)):
        if allocation["NodeID"] == node and allocation["ClientStatus"] == "running":
            try:
                report = json.loads(nomad.file(allocation["ID"], HOST_REPORT))
            except httpx.HTTPStatusError:
                break  # it has just begun
            return Checked(name=name, node=node, report=report)
    raise CliError(
        f"{name} has no check that runs: the job {job_id(pool)} has no report of it yet",
        fix=f"slipway status -s {plan.environment} shows why; a host that is away, or was drained,"
        " has none",
    )


def _must_be_free(nomad: Nomad, host: Checked) -> None:
    groups = {job["ID"] for job in nomad.jobs() if members_of(job) > 1}
    for allocation in nomad.allocations_on(host.node):
        if allocation["JobID"] in groups and allocation["ClientStatus"] not in ENDED:
            raise CliError(
                f"{host.name} is busy: it holds {allocation['Name']}, which measuring would slow",
                fix=f"slipway check {host.name} checks it by itself; to measure, take its member"
                " away first (fewer replicas)",
            )


def _requests(request: str, hosts: Sequence[Checked]) -> list[JsonObject]:
    """The first host measures, the second listens (services/fabric/fabric/requests.py)."""
    until = time.time() + ANSWERS_S
    empty = {
        "id": request,
        "until": until,
        "peer": "",
        "address": "",
        "port": 0,
        "peer_key": "",
    }
    if len(hosts) == 1:
        return [{**empty, "role": CHECK}]
    first, second = hosts
    for host in hosts:
        if not host.report["address"]:
            raise CliError(
                f"{host.name} has no address on {host.report['interface']}, the fabric's interface",
                fix=f"give the interface one, or change `interfaces` of the pool's fabric; slipway"
                f" check {host.name} says what else is wrong",
            )
    measures = {
        "role": MEASURE,
        "peer": second.name,
        "address": second.report["address"],
        "port": second.report["port"],
        "peer_key": second.report["key"],
    }
    listens = {
        "role": LISTEN,
        "peer": first.name,
        "address": first.report["address"],
        "peer_key": first.report["key"],
    }
    return [{**empty, **measures}, {**empty, **listens}]


def _wait(
    nomad: Nomad, plan: PlatformPlan, hosts: Sequence[Checked], request: str
) -> dict[str, HostFabric]:
    deadline = time.monotonic() + ANSWERS_S
    while True:
        verdicts = {host.name: read_fabric(nomad.node(host.node)["Meta"] or {}) for host in hosts}
        known = {name: each for name, each in verdicts.items() if each and each.request == request}
        if len(known) == len(hosts):
            return known
        if time.monotonic() > deadline:
            silent = ", ".join(sorted(verdicts.keys() - known.keys()))
            raise CliError(
                f"nothing was heard of {silent} within {ANSWERS_S:.0f} s; the last verdict holds",
                fix=f"slipway status -s {plan.environment} shows whether {JOB_ID} and the checks of"
                " the hosts run",
            )
        time.sleep(PAUSE_S)


def _findings(nomad: Nomad, pool: str, names: Sequence[str]) -> list[JsonObject]:
    """Those on these hosts: of one by itself and with any other, of two also with each other."""
    for allocation in nomad.allocations_of(JOB_ID):
        if allocation["ClientStatus"] == "running":
            found = json.loads(nomad.file(allocation["ID"], pool_report(pool)))["findings"]
            return [each for each in found if {each["host"], each["peer"]} & set(names)]
    return []


def _row(name: str, fabric: HostFabric) -> JsonObject:
    known = asdict(fabric)
    del known["request"]
    return {"name": name, **known}


def _wrong(message: str, fix: str) -> CliError:
    return CliError(message, fix=fix, exit_code=WRONG_INPUT)
