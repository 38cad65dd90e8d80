"""The document of `slipway hosts`: one entry per host, from the clusters and from the hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cli.applied import Applied
from cli.clusters.consul import STATES
from cli.clusters.nomad import newest_by_name
from cli.errors import CliError
from cli.hosts.cluster_view import ClusterView
from cli.hosts.roster import Member, roster
from cli.hosts.troubles import NOT_JOINED, Fixes, troubles
from components.fabric.metadata import read_fabric
from slipway.plan.platform import PlatformPlan

if TYPE_CHECKING:  # `up` needs no SSH to show what the clusters say
    from cli.hosts.facts import HostFacts

SCHEMA_VERSION = 2  # schemas/hosts.schema.json

JsonObject = dict[str, Any]


def hosts_document(
    plan: PlatformPlan,
    view: ClusterView,
    facts: Mapping[str, HostFacts | CliError],
    fixes: Fixes,
) -> JsonObject:
    """`facts` are what the hosts report of themselves, and `fixes` the commands that mend them."""
    rows = host_rows(plan, view, facts)
    found = troubles(plan.environment, rows, fixes)
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": plan.environment,
        "hosts": rows,
        "troubles": [trouble.document for trouble in found],
        "unreachable": dict(view.unreachable),
    }


def host_rows(
    plan: PlatformPlan, view: ClusterView, facts: Mapping[str, HostFacts | CliError]
) -> list[JsonObject]:
    """Hosts that only the clusters know come last: they have left the file, but not the
    clusters."""
    consul, nomad = _in_consul(view), _in_nomad(view)
    members = roster(plan)
    listed = {member.name for member in members}
    others = {
        name: entry
        for name, entry in {**(consul or {}), **(nomad or {})}.items()
        if name not in listed and entry["state"] != "left"
    }
    strangers = [
        {**_row(_stranger(name, entry), plan, consul, nomad, None), "in_file": False}
        for name, entry in sorted(others.items())
    ]
    rows = [_row(member, plan, consul, nomad, facts.get(member.name)) for member in members]
    return rows + strangers


def applied_rows(applied: Applied, view: ClusterView) -> list[JsonObject]:
    """The clusters' entries for the hosts of the applied plan: its nodes, and the servers that
    Nomad knows."""
    consul, nomad = _in_consul(view), _in_nomad(view)
    servers = [
        server["Name"].rpartition(".")[0]
        for server in view.nomad_servers or ()
        if server["Status"] != "left"  # taken out of the files
    ]
    names = [*servers, *(node.name for node in applied.nodes)]
    return [
        {
            "name": name,
            "in_file": True,
            "consul": _agent(consul, name),
            "nomad": _agent(nomad, name),
            "takes_work": ((nomad or {}).get(name) or {}).get("takes_work"),
            "unhealthy_devices": ((nomad or {}).get(name) or {}).get("unhealthy_devices"),
            "fabric": ((nomad or {}).get(name) or {}).get("fabric"),
        }
        for name in names
    ]


def _row(
    member: Member,
    plan: PlatformPlan,
    consul: Mapping[str, JsonObject] | None,
    nomad: Mapping[str, JsonObject] | None,
    found: HostFacts | CliError | None,
) -> JsonObject:
    agents = {"consul": _agent(consul, member.name), "nomad": _agent(nomad, member.name)}
    return {
        "name": member.name,
        "role": member.role,
        "pool": member.pool,
        "address": member.address,
        "in_file": True,
        **{
            name: agent and {key: agent[key] for key in ("state", "version")}
            for name, agent in agents.items()
        },
        "takes_work": (agents["nomad"] or {}).get("takes_work"),
        "unhealthy_devices": (agents["nomad"] or {}).get("unhealthy_devices"),
        "fabric": (agents["nomad"] or {}).get("fabric"),
        "planned_instead": {
            name: plan.tools[name]
            for name, agent in agents.items()
            if agent and agent["version"] not in ("", plan.tools[name])
        },
        **_of_host(found),
    }


def _of_host(found: HostFacts | CliError | None) -> JsonObject:
    """The host's own report; `not_reached` is why there is none, null where the host is not
    asked."""
    if found is None or isinstance(found, CliError):
        return {
            "free_bytes": None,
            "certificate_ends": None,
            "inactive_units": None,
            "not_reached": found and {"reason": found.message, "fix": found.fix},
        }
    ends = found.certificate_ends
    return {
        "free_bytes": found.free_bytes,
        "certificate_ends": ends.isoformat() if ends else None,
        "inactive_units": dict(found.inactive_units),
        "not_reached": None,
    }


def _agent(known: Mapping[str, JsonObject] | None, host: str) -> JsonObject | None:
    """None where the cluster does not answer."""
    return None if known is None else known.get(host, {"state": NOT_JOINED, "version": ""})


def _in_consul(view: ClusterView) -> dict[str, JsonObject] | None:
    if view.consul_members is None:
        return None
    return {
        member["Name"]: {
            "state": STATES.get(member["Status"], "unknown"),
            "version": member["Tags"].get("build", "").partition(":")[0],
            "address": member["Addr"],
        }
        for member in view.consul_members
    }


def _in_nomad(view: ClusterView) -> dict[str, JsonObject] | None:
    """Servers by their host's name, which Nomad completes with its region."""
    if view.nomad_servers is None or view.nomad_nodes is None:
        return None
    servers = {
        member["Name"].rpartition(".")[0]: {
            "state": member["Status"],
            "version": member["Tags"].get("build", ""),
            "address": member["Addr"],
        }
        for member in view.nomad_servers
    }
    nodes = {
        name: {
            "state": node["Status"],
            "version": node["Version"],
            "address": node["Address"],
            "pool": node["NodePool"],
            "takes_work": _takes_work(node),
            "unhealthy_devices": _unhealthy_devices(node),
            "fabric": _fabric(view.fabrics.get(name, {})),
        }
        for name, node in newest_by_name(dict(node) for node in view.nomad_nodes).items()
    }
    return servers | nodes


def _takes_work(node: Mapping[str, Any]) -> str:
    if node["Drain"]:
        return "draining"
    return "yes" if node["SchedulingEligibility"] == "eligible" else "no"


def _fabric(metadata: Mapping[str, str]) -> JsonObject | None:
    """None where it passed, or is not checked."""
    fabric = read_fabric(metadata)
    if fabric is None:
        return None
    return {
        "verdict": fabric.verdict,
        "takes_members": fabric.takes_members,
        "reason": fabric.reason,
        "fix": fabric.fix,
        "figure": fabric.figure,
        "threshold": fabric.threshold,
        "unit": fabric.unit,
    }


def _unhealthy_devices(node: Mapping[str, Any]) -> dict[str, str]:
    """The reasons by the devices' UUIDs."""
    resources = node.get("NodeResources") or {}
    instances = (
        each for group in resources.get("Devices") or () for each in group["Instances"] or ()
    )
    return {each["ID"]: each["HealthDescription"] for each in instances if not each["Healthy"]}


def _stranger(name: str, entry: Mapping[str, Any]) -> Member:
    return Member(name=name, role="node", pool=entry.get("pool", ""), address=entry["address"])
