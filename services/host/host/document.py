"""A host's agents as the Pulumi program describes them (schemas/node.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from program.document import JsonObject, parsing
from program.errors import InputError
from program.folders import Folders, substitute

from host.firewall_rules import Firewall, read_firewall

SCHEMA = "node.schema.json"
SCHEMA_VERSION = 3  # version 2 had no `renewal`, because agents had no certificates


@dataclass(frozen=True)
class Endpoint:
    """Where supervisord's own HTTP server listens."""

    address: str
    port: int


@dataclass(frozen=True)
class Unit:
    """The settings of an agent that only systemd needs. `after` names agents of the same host.
    Tasks of an agent that `runs_tasks` outlive it, and inherit its limits and restrictions.
    """

    user: str
    after: tuple[str, ...] = ()
    runs_tasks: bool = False
    limits: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Units:
    """Agents run by systemd, by name."""

    agents: Mapping[str, Unit]


@dataclass(frozen=True)
class Agent:
    """One supervised process of a host, with this machine's paths filled in.

    Agents start in the order of `stage`: all agents of a stage must answer at `ready_url` before
    the next stage starts. They stop in reverse order.
    """

    host: str
    name: str
    stage: int
    command: tuple[str, ...]
    ready_url: str
    ready_timeout_s: int
    stop_timeout_s: int

    @property
    def program(self) -> str:
        """The agent's name for people, unique in the environment."""
        return f"{self.host}-{self.name}"


@dataclass(frozen=True)
class Prerequisites:
    """Conditions in the cluster that a Nomad client waits for before it starts."""

    consul: str  # the address of the host's own Consul agent
    consul_service: str  # that agent's own service
    nomad: tuple[str, ...]  # the servers' addresses


@dataclass(frozen=True)
class Departure:
    """The clusters to tell when a host is removed, and the time its work may take to finish.
    `by_itself`: no operator removes it from Consul afterwards."""

    consul: str
    nomad: str
    drain_timeout_s: int
    by_itself: bool = False


@dataclass(frozen=True)
class Joining:
    """How the host's agents log in to Consul when they have been introduced: its servers, and by
    agent name the auth method."""

    consul: tuple[str, ...]
    auth_methods: Mapping[str, str]


@dataclass(frozen=True)
class Host:
    """A host's agents, and by agent name: configurations, additional prerequisites, how an agent
    takes up a renewed certificate, and where one of several servers says which of them leads.
    `firewall`: None where the host's pool has no groups."""

    name: str
    supervisor: Endpoint | Units
    agents: tuple[Agent, ...]
    configurations: Mapping[str, Any]
    prerequisites: Mapping[str, Prerequisites]
    departure: Departure | None
    renewals: Mapping[str, str] = field(default_factory=dict)
    leader_urls: Mapping[str, str] = field(default_factory=dict)
    joining: Joining | None = None
    firewall: Firewall | None = None


# How an agent takes up a renewed certificate: by the signal HUP, instead of by a restart.
RELOAD = "reload"


def read_host(document: JsonObject, folders: Folders) -> Host:
    """Parse a host document and replace its placeholders with this machine's paths."""
    with parsing(SCHEMA):
        return _host(document, folders)


def read_agent(record: Mapping[str, Any]) -> Agent:
    """The inverse of `dataclasses.asdict`: an agent as stored in program.json.

    A log collector watcher of an earlier version reads that file too and knows only these fields.
    """
    return Agent(**{**record, "command": tuple(record["command"])})


def read_units(section: Mapping[str, Any]) -> Units:
    """The `supervisor` of a document that says {"kind": "systemd"}, and the file that keeps it."""
    if section["kind"] != "systemd":
        raise InputError(f"{section['kind']} is no supervisor this host knows: systemd is")
    agents = {
        name: Unit(**{**unit, "after": tuple(unit.get("after", ()))})
        for name, unit in section["agents"].items()
    }
    return Units(agents)


def read_prerequisites(starts_after: Mapping[str, Any]) -> Prerequisites:
    return Prerequisites(**{**starts_after, "nomad": tuple(starts_after["nomad"])})


def _host(document: JsonObject, folders: Folders) -> Host:
    host = document["host"]
    agents, configurations, prerequisites, renewals, leader_urls = [], {}, {}, {}, {}
    for entry in document["agents"]:
        filled = substitute(entry, _paths(folders, host, entry["name"]))
        configurations[entry["name"]] = filled.pop("configuration")
        if (renewal := filled.pop("renewal", None)) is not None:
            renewals[entry["name"]] = renewal
        if (leader_url := filled.pop("leader_url", None)) is not None:
            leader_urls[entry["name"]] = leader_url
        if (starts_after := filled.pop("starts_after", None)) is not None:
            prerequisites[entry["name"]] = read_prerequisites(starts_after)
        agents.append(read_agent({"host": host, **filled}))
    supervisor, departure = document["supervisor"], document.get("departure")
    joining, firewall = document.get("joining"), document.get("firewall")
    return Host(
        name=host,
        supervisor=read_units(supervisor) if "kind" in supervisor else Endpoint(**supervisor),
        agents=tuple(sorted(agents, key=lambda agent: agent.stage)),
        configurations=configurations,
        prerequisites=prerequisites,
        renewals=renewals,
        leader_urls=leader_urls,
        departure=Departure(**departure) if departure else None,
        joining=Joining(**{**joining, "consul": tuple(joining["consul"])}) if joining else None,
        firewall=read_firewall(firewall) if firewall else None,
    )


def _paths(folders: Folders, host: str, agent: str) -> dict[str, Path]:
    return {
        "run": folders.run,
        "cache": folders.cache,
        "scratch": folders.scratch,
        "agent": folders.agent(host, agent),
    }
