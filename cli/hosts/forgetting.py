"""Removal of a host that is gone for good: nothing is asked of the host itself.

`up` removes a host over SSH: it drains, leaves its clusters and deletes what it has. None of that
can be done on a dead machine, so its resources could never be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.clusters.both import Clusters
from cli.clusters.consul import ALIVE
from cli.clusters.servers import must_answer
from cli.errors import WRONG_INPUT, CliError
from cli.hosts.over_ssh import HostError, OverSsh, UnreachableError
from cli.hosts.roster import unknown
from cli.pulumi.exported import is_command, name_of, resources_of

# components/naming.py, components/hosts/ssh.py: what runs on a host, and what is brought there.
ON_HOST = ("node", "consul", "nomad")
DELIVERY = "delivery"
ANSWERS_S = 60.0
UNCHANGED = "the state is as it was"
REFUSED = "Permission denied"  # somebody is there
GONE = {"failed", "left"}  # Nomad's words for a server that the others do not expect back


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A host in Pulumi's state: its resources (URNs), how it was reached, and whether it is a
    server."""

    name: str
    urns: tuple[str, ...]
    way: Mapping[str, Any]
    server: bool


def recorded(exported: str, host: str, environment: str) -> Recorded:
    """The host in an exported stack. CliError (wrong input) with the hosts that are there."""
    hosts = {each.name: each for each in recorded_hosts(exported)}
    if host not in hosts:
        raise unknown(host, environment, hosts)
    return hosts[host]


def must_be_silent(
    host: Recorded, over_ssh: OverSsh, environment: str, listed_in: str | None
) -> None:
    """CliError if the host answers over SSH: `up` can remove it then, and drains it first.
    `listed_in` is the file that still names it, if one does."""
    try:
        over_ssh.ask(host.name, host.way, "true", within_s=ANSWERS_S)
    except UnreachableError as error:
        if REFUSED not in error.message:
            return
    except HostError:
        pass  # it has answered with an error
    raise CliError(
        f"{host.name} still answers over SSH, so nothing was forgotten",
        fix=f"remove it from {listed_in}; slipway up -s {environment} then drains and removes it"
        if listed_in
        else f"slipway up -s {environment} drains and removes it",
        exit_code=WRONG_INPUT,
    )


def must_be_lost(host: Recorded, clusters: Clusters) -> None:
    """CliError if Consul or Nomad have heard of the host lately.

    Also if Nomad's servers have not noticed the end of one of them: told to forget it then, they
    would take a new machine for it, and never let that one into their quorum.
    """
    with must_answer("Consul", UNCHANGED):
        members = clusters.consul.members()
    with must_answer("Nomad", UNCHANGED):
        node = clusters.nomad.node_named(host.name)
        servers = clusters.nomad.servers_named(host.name)
    if any(each["Name"] == host.name and each["Status"] == ALIVE for each in members):
        raise _is_heard(host.name, "Consul")
    if (node is not None and node["Status"] == "ready") or any(
        each["Status"] not in GONE for each in servers
    ):
        raise _is_heard(host.name, "Nomad")


def must_leave_a_quorum(host: Recorded, clusters: Clusters) -> None:
    """CliError if the servers that live without this one cannot elect a leader."""
    with must_answer("Consul", UNCHANGED):
        servers = [
            each for each in clusters.consul.members() if each["Tags"].get("role") == "consul"
        ]
    if not quorum_without(host.name, servers):
        living = [each["Name"] for each in servers if each["Status"] == ALIVE]
        raise CliError(
            f"{host.name} is one of {len(servers)} servers, of which {len(living)} live: without it"
            " the rest could not elect a leader",
            fix="bring a server back first; a cluster that has lost most of its servers is set up"
            " again: slipway down, then slipway up",
        )


def quorum_without(host: str, servers: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a majority of the servers (Consul's members) live, not counting the host."""
    living = [each for each in servers if each["Status"] == ALIVE and each["Name"] != host]
    return len(living) > len(servers) // 2


def tell_clusters(host: Recorded, clusters: Clusters) -> None:
    """Removes the host from Nomad's and Consul's lists. Again is the same as once."""
    with must_answer("Nomad", UNCHANGED):
        _leave_nomad(host, clusters)
    with must_answer("Consul", UNCHANGED):
        clusters.consul.force_leave(host.name)


def _leave_nomad(host: Recorded, clusters: Clusters) -> None:
    for node in clusters.nomad.nodes():
        if node["Name"] == host.name:
            clusters.nomad.purge(node["ID"])
    for server in clusters.nomad.servers_named(host.name):
        clusters.nomad.force_leave(server["Name"])


def _is_heard(host: str, cluster: str) -> CliError:
    return CliError(
        f"{host} does not answer over SSH, but {cluster} still hears it",
        fix="a host that has just died is noticed within a minute: try again then; if it lives,"
        " mend the way to it",
    )


def recorded_hosts(exported: str) -> Iterator[Recorded]:
    """Every host to which something was brought."""
    commands = {
        name_of(each): each
        for each in resources_of(exported)
        if is_command(each) and not each.get("delete")
    }
    for name, resource in commands.items():
        kind, _, host = name.partition("-")
        if kind != DELIVERY:
            continue
        document = json.loads(resource["inputs"]["environment"]["SLIPWAY_DOCUMENT"])
        names = [f"{kind}-{host}" for kind in (*ON_HOST, DELIVERY)]
        yield Recorded(
            name=host,
            urns=tuple(commands[each]["urn"] for each in names if each in commands),
            way=document["ssh"],
            server=f"consul-{host}" in commands,
        )
