"""The snapshots that one host of the environment keeps (services/host/snapshots)."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.errors import WRONG_INPUT, CliError
from cli.hosts.over_ssh import OverSsh, known_way
from components.hosts.delivery import run_folder
from slipway.plan.platform import PlatformPlan, SshPlan

SCHEMA_VERSION = 1  # schemas/snapshots.schema.json
SYSTEMS = ("consul", "nomad")
FILE = re.compile(r"(consul|nomad)-(\d{8}T\d{6}Z)\.snap (\d+)")
TIME = "%Y%m%dT%H%M%S%z"
ANSWERS_S = 60.0
FETCHED_S = 1800.0  # gigabytes over a slow line


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`name` is when it was taken (20261125T103000Z, UTC); `size_bytes` has the size of each
    cluster's file. A run that failed in between has left one file only."""

    name: str
    size_bytes: Mapping[str, int]

    @property
    def taken(self) -> datetime.datetime:
        return datetime.datetime.strptime(self.name, TIME)

    @property
    def complete(self) -> bool:
        return set(self.size_bytes) == set(SYSTEMS)


def host_of(plan: PlatformPlan) -> str:
    """The name of the host that keeps them. ValueError if the environment takes none."""
    if plan.snapshots is None:
        raise ValueError(f"{plan.environment} takes no snapshots")
    return plan.snapshots.node


def kept(plan: PlatformPlan, ssh: SshPlan, over_ssh: OverSsh) -> list[Snapshot]:
    """Oldest first."""
    host, folder = host_of(plan), shlex.quote(folder_of(plan))
    look = f"[ ! -d {folder} ] || find {folder} -maxdepth 1 -name '*.snap' -printf '%f %s\\n'"
    return read(over_ssh.ask(host, known_way(ssh, host), look, within_s=ANSWERS_S))


def read(listed: str) -> list[Snapshot]:
    """The snapshots in lines of a file's name and its size in bytes."""
    found: dict[str, dict[str, int]] = {}
    for system, name, size in FILE.findall(listed):
        found.setdefault(name, {})[system] = int(size)
    return [Snapshot(name=name, size_bytes=found[name]) for name in sorted(found)]


def fetch(
    plan: PlatformPlan, ssh: SshPlan, over_ssh: OverSsh, snapshot: Snapshot, folder: Path
) -> dict[str, Path]:
    """Copies both files from their host into the folder; returns them by cluster."""
    host, files = host_of(plan), dict[str, Path]()
    for system in SYSTEMS:
        name = f"{system}-{snapshot.name}.snap"
        copy = f"cat {shlex.quote(f'{folder_of(plan)}/{name}')}"
        files[system] = folder / name
        over_ssh.save(host, known_way(ssh, host), copy, files[system], within_s=FETCHED_S)
    return files


def chosen(snapshots: Sequence[Snapshot], name: str | None, environment: str) -> Snapshot:
    """The newest complete one, or the one of this name. CliError without it."""
    whole = [each for each in snapshots if each.complete]
    if name is None and whole:
        return whole[-1]
    for each in whole:
        if each.name == name:
            return each
    if not whole:
        raise CliError(
            f'"{environment}" has no complete snapshot',
            fix="put both files of a copy that you keep elsewhere into the folder of the snapshots"
            " (docs/operations/restore.md)",
        )
    raise CliError(
        f'--snapshot: "{environment}" has no complete snapshot "{name}"',
        fix=f"use one of: {', '.join(each.name for each in whole)}",
        exit_code=WRONG_INPUT,
    )


def document(
    plan: PlatformPlan, snapshots: Sequence[Snapshot], now: datetime.datetime
) -> dict[str, Any]:
    """schemas/snapshots.schema.json, newest first."""
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": plan.environment,
        "host": host_of(plan),
        "folder": folder_of(plan),
        "snapshots": [
            {
                "name": each.name,
                "taken": each.taken.isoformat(),
                "age_s": round((now - each.taken).total_seconds()),
                "size_bytes": {system: each.size_bytes.get(system) for system in SYSTEMS},
            }
            for each in reversed(snapshots)
        ],
    }


def folder_of(plan: PlatformPlan) -> str:
    """On the host."""
    return f"{run_folder(plan.environment)}/snapshots"
