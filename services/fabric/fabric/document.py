"""The document of a check (schemas/fabric-check.schema.json) and its report
(schemas/fabric-report.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from program.document import JsonObject, parsing
from program.errors import InputError

from fabric.findings import Finding, worst
from fabric.planned import Planned, Thresholds, read_planned, read_thresholds
from fabric.tools import OF_HOSTS, OF_PAIRS
from fabric.verdicts import Output, verdicts_of_hosts

SCHEMA = "fabric-check.schema.json"
VERSION = 1


@dataclass(frozen=True)
class Check:
    planned: Planned
    thresholds: Thresholds
    busy: tuple[str, ...]
    hosts: Mapping[str, Sequence[Output]]
    pairs: Mapping[tuple[str, str], Sequence[Output]]


def read_check(document: Mapping[str, Any]) -> Check:
    """Raises InputError for a document that does not follow the schema, or an impossible plan."""
    with parsing(SCHEMA):
        planned = read_planned(document["planned"])
        return Check(
            planned=planned,
            thresholds=read_thresholds(document["thresholds"], planned),
            busy=tuple(document.get("busy", ())),
            hosts={
                each["name"]: _outputs(each["outputs"], tuple(OF_HOSTS))
                for each in document["hosts"]
            },
            pairs={
                (each["host"], each["peer"]): _outputs(each["outputs"], tuple(OF_PAIRS))
                for each in document.get("pairs", ())
            },
        )


def report(findings: Sequence[Finding]) -> JsonObject:
    """As schemas/fabric-report.schema.json."""
    hosts = verdicts_of_hosts(findings)
    return {
        "schema_version": VERSION,
        "verdict": worst(findings).value,
        "hosts": {host: verdict.value for host, verdict in hosts.items()},
        "findings": [{**asdict(each), "verdict": each.verdict.value} for each in findings],
    }


def _outputs(outputs: Sequence[Mapping[str, Any]], known: Sequence[str]) -> list[Output]:
    for each in outputs:
        if each["tool"] not in known:
            raise InputError(f"outputs: {each['tool']!r} is unknown here; use {', '.join(known)}")
    return [
        Output(each["tool"], each["text"], each.get("exit_code", 0), each.get("device"))
        for each in outputs
    ]
