"""Replaces the nodes of an elastic pool that run from an earlier template.

    refresh_nodes.py apply    document in SLIPWAY_DOCUMENT (schemas/node-refresh.schema.json)

AWS replaces them by an instance refresh of their Auto Scaling group, as many at a time as the
document allows. A lifecycle hook keeps a new instance out of the count until it has joined, and
another one keeps an old instance alive until its work has moved away (services/aws/node.py). So
this program starts the refresh and follows it; AWS goes on while nobody does. A refresh that runs
already is followed, and nodes that have been replaced are not replaced again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import aws_command
from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document
from program.errors import HostError, exit_code
from program.waiting import say

from refresh.group import (
    FAILED,
    SUCCESSFUL,
    Group,
    InstanceRefresh,
    read_group,
    read_refreshes,
)

SCHEMA = "node-refresh.schema.json"
SCHEMA_VERSION = 1
ASKED_EVERY_S = 10
DESCRIBE = "describe-instance-refreshes"
WHOLE = 100  # percent


@dataclass(frozen=True)
class Refresh:
    """Healthy instances in percent of those that the group wants: at least, and at most."""

    region: str
    pool: str
    group: str
    min_healthy_percent: int
    max_healthy_percent: int


def read_refresh(document: JsonObject) -> Refresh:
    with parsing(SCHEMA):
        return Refresh(
            region=document["region"],
            pool=document["pool"],
            group=document["group"],
            min_healthy_percent=document["min_healthy_percent"],
            max_healthy_percent=document["max_healthy_percent"],
        )


def apply(refresh: Refresh, pause: Callable[[], None]) -> None:
    """Raises HostError for a refresh that AWS gave up, or that somebody cancelled."""
    running = _running(refresh)
    if running is not None:  # perhaps to the template before
        _must_have_succeeded(refresh, _followed(refresh, running.id, pause))
    while (group := _group(refresh)).outdated:
        ended = _followed(refresh, _start(refresh, group), pause)
        left = len(_group(refresh).outdated)
        # Without an instance to spare new ones cannot start until old ones have left, for which
        # AWS may give up.
        if ended.status == FAILED and refresh.min_healthy_percent < WHOLE and _fewer(left, group):
            continue
        _must_have_succeeded(refresh, ended)
        if not _fewer(left, group):
            raise HostError(_failure(refresh, ended))
    say(f"pool {refresh.pool}: {group.instances} of {group.instances} nodes run from its template")


def _fewer(left: int, group: Group) -> bool:
    return left < len(group.outdated)


def _must_have_succeeded(refresh: Refresh, ended: InstanceRefresh) -> None:
    if ended.status != SUCCESSFUL:
        raise HostError(_failure(refresh, ended))


def _start(refresh: Refresh, group: Group) -> str:
    """The ID of the refresh."""
    say(
        f"pool {refresh.pool}: {len(group.outdated)} of {group.instances} nodes run from an earlier"
        " template and are replaced"
    )
    preferences = {
        "MinHealthyPercentage": refresh.min_healthy_percent,
        "MaxHealthyPercentage": refresh.max_healthy_percent,
        "InstanceWarmup": 0,  # an instance that has joined is ready
        "SkipMatching": True,
    }
    answer = _ask(refresh, "start-instance-refresh", "--preferences", json.dumps(preferences))
    return str(answer["InstanceRefreshId"])


def _followed(refresh: Refresh, wanted: str, pause: Callable[[], None]) -> InstanceRefresh:
    """The refresh of this ID, once it has ended."""
    said = ""
    while True:
        found = read_refreshes(_ask(refresh, DESCRIBE, "--instance-refresh-ids", wanted))
        if found and not found[0].goes_on:
            return found[0]
        line = _progress(refresh, found[0]) if found else said
        if line != said:
            say(line)
        said = line
        pause()


def _progress(refresh: Refresh, running: InstanceRefresh) -> str:
    reason = f": {running.reason}" if running.reason else ""
    return f"pool {refresh.pool}: {running.percent} % replaced, {running.left} left{reason}"


def _running(refresh: Refresh) -> InstanceRefresh | None:
    """AWS lists the newest first."""
    found = read_refreshes(_ask(refresh, DESCRIBE))
    return found[0] if found and found[0].goes_on else None


def _group(refresh: Refresh) -> Group:
    name = ("--auto-scaling-group-names", refresh.group)
    found = read_group(
        aws_command.ask(refresh.region, "autoscaling", "describe-auto-scaling-groups", *name)
    )
    if found is None:
        raise HostError(f"there is no Auto Scaling group {refresh.group} in {refresh.region}")
    return found


def _ask(refresh: Refresh, action: str, *arguments: str) -> JsonObject:
    name = ("--auto-scaling-group-name", refresh.group)
    found: JsonObject = aws_command.ask(refresh.region, "autoscaling", action, *name, *arguments)
    return found


def _failure(refresh: Refresh, ended: InstanceRefresh) -> str:
    reason = f": {ended.reason}" if ended.reason else ""
    return (
        f"pool {refresh.pool}: the instance refresh of {refresh.group} ended as {ended.status}"
        f" at {ended.percent} %{reason}\n"
        "fix: see why new nodes do not join or old ones do not leave (the journal of their unit"
        " slipway-boot, the activity of the group); `slipway up` then goes on with those that are"
        " left"
    )


def run() -> None:
    expect_apply("refresh_nodes.py")
    refresh = read_refresh(read_document(SCHEMA_VERSION))
    apply(refresh, lambda: time.sleep(ASKED_EVERY_S))  # AWS has no event for it


def main() -> int:
    return exit_code(run)
