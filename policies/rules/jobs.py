"""The parts of a Nomad job (API JSON) that rules read."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rules.facts import Unevaluable, mapping, mappings, text, text_or_none

NANOSECONDS_PER_S = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Task:
    group: str
    name: str
    document: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.group}/{self.name}"


def job_of(props: Mapping[str, Any]) -> Mapping[str, Any]:
    """The job of a `nomad.Job` whose jobspec is JSON; HCL is not parsed."""
    document = _parsed(text(props, "jobspec"))
    return mapping(document, "Job") or document


def groups(job: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for group in mappings(job, "TaskGroups"):
        yield text(group, "Name"), group


def tasks(job: Mapping[str, Any]) -> Iterator[Task]:
    for name, group in groups(job):
        for task in mappings(group, "Tasks"):
            yield Task(group=name, name=text(task, "Name"), document=task)


def services(group: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Those of the group and of its tasks."""
    yield from mappings(group, "Services")
    for task in mappings(group, "Tasks"):
        yield from mappings(task, "Services")


def is_reachable(group: Mapping[str, Any]) -> bool:
    """Whether it has a port or registers a service."""
    return bool(mappings(group, "Networks") or [*services(group)])


def is_service(job: Mapping[str, Any]) -> bool:
    return (text_or_none(job, "Type") or "service") == "service"


@functools.lru_cache(maxsize=64)
def _parsed(jobspec: str) -> Mapping[str, Any]:
    try:
        document = json.loads(jobspec)
    except ValueError:
        raise Unevaluable("jobspec is not JSON") from None
    if not isinstance(document, Mapping):
        raise Unevaluable("jobspec is not a JSON object")
    return document
