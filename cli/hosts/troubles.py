"""Hosts that are down, have not joined, take no work, have devices with a fault or a fabric that
did not pass its check, and the command that mends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cli.console import say

Row = Mapping[str, Any]  # of schemas/hosts.schema.json

# Consul's and Nomad's words for an agent that they do not hear.
SILENT = {"failed", "left", "down", "disconnected"}
NOT_JOINED = "not joined"
DRAINED = {
    "draining": "is being drained: it takes no work",
    "no": "was drained: it takes no work",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixes:
    """The commands that mend a host, with {host} and {environment} to be filled in."""

    down: str
    silent: str
    not_joined: str


HERE = Fixes(
    down="slipway start -s {environment} brings it back",
    silent="slipway start -s {environment} brings it back",
    not_joined="slipway up -s {environment} lets it join",
)
MACHINES = Fixes(
    down="power it on; if it is gone for good: slipway forget {host} -s {environment} --yes, then"
    " slipway up -s {environment} (docs/operations/replace-a-host.md)",
    silent="slipway hosts -s {environment} shows which unit does not run; slipway logs {host}"
    " {agent} -s {environment} says why",
    not_joined="slipway admit {host} -s {environment}; if it is new in the files: slipway up -s"
    " {environment}",
)
RETURN = "slipway return {host} -s {environment} gives it work again"
TRUST = (
    "once that is done, slipway return {host} -s {environment} gives the device work again; so does"
    " a reboot"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """`absent`: the platform does without the host; else it only gives it less work."""

    host: str
    what: str
    fix: str
    absent: bool

    @property
    def document(self) -> dict[str, str]:
        return {key: value for key, value in asdict(self).items() if key != "absent"}

    @property
    def line(self) -> str:
        return f"{self.host} {self.what}\n    fix: {self.fix}"


def troubles(environment: str, rows: Iterable[Row], fixes: Fixes) -> list[Trouble]:
    """Troubles of the hosts that the files name; other hosts are leaving."""
    found = (_trouble(environment, row, fixes) for row in rows if row["in_file"])
    return [trouble for trouble in found if trouble is not None]


def silent_clusters(environment: str, unreachable: Mapping[str, str]) -> list[Trouble]:
    """What nobody can say is not taken for well. `unreachable` has the reason by cluster."""
    return [
        Trouble(
            host=cluster.title(),
            what=f"does not say which hosts are there: {reason}",
            fix=f"slipway status -s {environment} asks again",
            absent=True,
        )
        for cluster, reason in unreachable.items()
    ]


def say_all(found: Iterable[Trouble]) -> None:
    for trouble in found:
        say(trouble.line, style="red" if trouble.absent else "yellow")


def _trouble(environment: str, row: Row, fixes: Fixes) -> Trouble | None:
    states = {name: row[name]["state"] for name in ("consul", "nomad") if row[name]}
    silent = [cluster for cluster, state in states.items() if state in SILENT]
    unknown = [cluster for cluster, state in states.items() if state == NOT_JOINED]
    agent = next(iter((*silent, *unknown)), "")

    def trouble(what: str, fix: str, *, absent: bool = True) -> Trouble:
        command = fix.format(host=row["name"], environment=environment, agent=agent)
        return Trouble(host=row["name"], what=what, fix=command, absent=absent)

    if agent and len(silent) + len(unknown) < len(states):
        return trouble(f"is there only in part: {agent.title()} does not hear it", fixes.silent)
    if silent:
        return trouble(f"is down: {_none_of(states)} it", fixes.down)
    if unknown:
        return trouble(f"has not joined: {_none_of(states)} it", fixes.not_joined)
    if row["takes_work"] in DRAINED:
        return trouble(DRAINED[row["takes_work"]], RETURN, absent=False)
    if row["unhealthy_devices"]:
        return trouble(_with_faults(row["unhealthy_devices"]), TRUST, absent=False)
    return _of_fabric(environment, row["name"], row["fabric"]) if row["fabric"] else None


def _of_fabric(environment: str, host: str, fabric: Row) -> Trouble:
    takes_none = "takes no members of groups until the check of its fabric passes"
    gap = "has a gap in the check of its fabric, and takes members of groups"
    again = f"slipway check {host} -s {environment} checks it again"
    return Trouble(
        host=host,
        what=f"{gap if fabric['takes_members'] else takes_none}: {fabric['reason']}",
        fix=f"{fabric['fix']}; {again}",
        absent=False,
    )


def _with_faults(devices: Mapping[str, str]) -> str:
    (first, reason), *others = devices.items()
    besides = f", and {len(others)} more" if others else ""
    return f"has a device with a fault: {first}: {reason}{besides}"


def _none_of(clusters: Iterable[str]) -> str:
    first, *others = (cluster.title() for cluster in clusters)
    return f"neither {first} nor {others[0]} hears" if others else f"{first} does not hear"
