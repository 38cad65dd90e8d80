"""What crosses from the Pulumi program to a host: schemas/node.schema.json and its secrets.

The document comes in SLIPWAY_DOCUMENT, secrets as JSON on standard input: neither is ever on a
command line, and secrets are in no file that others can read.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from errors import InputError
from folders import Folders, substitute

# This version and the one before are read; a newer program meets an older host during a change.
SCHEMA_VERSION = 1
ACCEPTED_VERSIONS = (SCHEMA_VERSION - 1, SCHEMA_VERSION)


@dataclass(frozen=True)
class Endpoint:
    """Where supervisord's own HTTP server listens."""

    address: str
    port: int


@dataclass(frozen=True)
class Agent:
    """One supervised process of a host, with every path of this machine filled in.

    Agents start in the order of `stage`, all of one stage answering at `ready_url` before the
    next stage starts, and stop the other way round.
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
        """The name under supervisord, unique in the environment."""
        return f"{self.host}-{self.name}"


@dataclass(frozen=True)
class Departure:
    """Whom to tell when a host leaves for good, and how long its work may take to end."""

    consul: str
    nomad: str
    drain_timeout_s: int


@dataclass(frozen=True)
class Host:
    """A host's agents and the two files of each: its configuration and its secrets."""

    name: str
    supervisor: Endpoint
    agents: tuple[Agent, ...]
    configurations: dict[str, Any]
    departure: Departure | None


def read_document() -> dict[str, Any]:
    """The JSON object in SLIPWAY_DOCUMENT, its version checked."""
    text = os.environ.get("SLIPWAY_DOCUMENT")
    if not text:
        raise InputError("SLIPWAY_DOCUMENT is not set: it holds the JSON document to apply")
    return _versioned(text, "SLIPWAY_DOCUMENT")


def read_secrets() -> dict[str, Any]:
    """The JSON object on standard input, its version checked."""
    return _versioned(sys.stdin.read(), "standard input")


def read_host(document: dict[str, Any], folders: Folders) -> Host:
    """Parse a host document, its placeholders replaced by this machine's paths."""
    try:
        return _host(document, folders)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"SLIPWAY_DOCUMENT does not follow schemas/node.schema.json: {error!r}"
        ) from None


def read_agent(record: dict[str, Any]) -> Agent:
    """The inverse of `dataclasses.asdict`: an agent as program.json keeps it."""
    return Agent(**{**record, "command": tuple(record["command"])})


def _host(document: dict[str, Any], folders: Folders) -> Host:
    host = document["host"]
    agents, configurations = [], {}
    for entry in document["agents"]:
        filled = substitute(entry, _paths(folders, host, entry["name"]))
        configurations[entry["name"]] = filled.pop("configuration")
        agents.append(read_agent({"host": host, **filled}))
    departure = document.get("departure")
    return Host(
        name=host,
        supervisor=Endpoint(**document["supervisor"]),
        agents=tuple(sorted(agents, key=lambda agent: agent.stage)),
        configurations=configurations,
        departure=Departure(**departure) if departure else None,
    )


def _paths(folders: Folders, host: str, agent: str) -> dict[str, Path]:
    return {
        "run": folders.run,
        "cache": folders.cache,
        "scratch": folders.scratch,
        "agent": folders.agent(host, agent),
    }


def _versioned(text: str, source: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"{source} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{source} is not a JSON object")
    version = document.get("schema_version")
    if version not in ACCEPTED_VERSIONS:
        known = " and ".join(str(accepted) for accepted in ACCEPTED_VERSIONS)
        raise InputError(
            f"{source} has schema_version {version}; this host reads {known}. "
            "Use the program and services/node of one checkout."
        )
    return document
