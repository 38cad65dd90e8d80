"""Keeps what Nomad knows of each host's fabric: the metadata by which it places members."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fabric.document import report as rendered
from fabric.findings import Finding
from fabric.pool import VERSION, Pool
from fabric.requests import LISTEN, MEASURE, REPORT, REQUEST, Request, write_request
from program.errors import InputError
from program.group.place import members_of
from program.http_json import Api, ApiError

from admission.reports import problem_of
from admission.turns import Standing, next_pair, unmeasured
from admission.verdicts import (
    Admission,
    admissions,
    findings_of,
    metadata_of,
    read_admission,
)

LIVE = ("pending", "running", "unknown")
MEASURING_S = 120.0  # until a measurement that nobody reports of is given up
METADATA = "/v1/client/metadata?node_id={}"


@dataclass(frozen=True)
class Seen:
    """A host whose check runs: its node, that node's metadata, and its report."""

    node: str
    metadata: Mapping[str, str]
    report: Mapping[str, Any]


@dataclass
class Turn:
    """A measurement that was asked for."""

    id: str
    hosts: tuple[str, str]
    until: float

    def unanswered(self, seen: Mapping[str, Seen]) -> list[str]:
        """A host that has gone is waited for no more."""
        here = [host for host in self.hosts if host in seen]
        return [host for host in here if seen[host].report["request"] != self.id]


@dataclass
class Keeper:
    """`known` is by pool and host, and so are `_asked` and `_silent`: when a host was last asked to
    measure, and when its answer was given up; and `_bad`: what is wrong with its report. `_turns`
    are the measurements that go on, by pool."""

    nomad: Api
    pools: list[Pool]
    folder: Path
    say: Callable[[str], None]
    clock: Callable[[], float] = time.time
    known: dict[tuple[str, str], Admission] = field(default_factory=dict)
    _turns: dict[str, Turn] = field(default_factory=dict)
    _asked: dict[tuple[str, str], float] = field(default_factory=dict)
    _silent: dict[tuple[str, str], float] = field(default_factory=dict)
    _bad: dict[tuple[str, str], str] = field(default_factory=dict)

    def look(self) -> None:
        """An agent or a server that is away, or a plan that cannot be judged, holds up one pool."""
        for pool in self.pools:
            try:
                self._look(pool)
            except (ApiError, InputError) as error:
                self.say(f"{pool.name}: {error}")

    def _look(self, pool: Pool) -> None:
        seen = self._seen(pool)
        waiting = self._let_measure(pool, seen) if pool.measures else ()
        reports = {host: each.report for host, each in seen.items()}
        findings = findings_of(pool, reports)
        self._write(pool, findings)
        before = {host: read_admission(each.metadata) for host, each in seen.items()}
        found = admissions(pool, reports, findings, before, waiting)
        for gone in [key for key in self.known if key[0] == pool.name and key[1] not in found]:
            del self.known[gone]
        for host, admission in found.items():
            try:
                self._tell(pool, host, seen[host], admission)
            except ApiError as error:  # the others are told all the same
                self.say(f"{host} of {pool.name}: {error}")

    def _seen(self, pool: Pool) -> dict[str, Seen]:
        """By the host's name. A host whose allocation has no report yet, or one that cannot be
        judged, is not seen."""
        found: dict[str, Seen] = {}
        for allocation in self._of_job(pool.job):
            if allocation["ClientStatus"] != "running":
                continue
            try:
                path = f"/v1/client/fs/cat/{allocation['ID']}?path=alloc/{REPORT}"
                report = self.nomad.get(path)
                node = self.nomad.get(f"/v1/node/{allocation['NodeID']}")
            except ApiError:
                continue  # it has none yet, or its node is away
            if self._is_good(pool, node["Name"], report):
                found[node["Name"]] = Seen(node["ID"], node["Meta"] or {}, report)
        return found

    def _is_good(self, pool: Pool, host: str, report: Any) -> bool:
        if isinstance(report, dict) and report.get("schema_version") != VERSION:
            return False  # its check is being replaced
        problem = problem_of(pool, host, report)
        if problem and self._bad.get((pool.name, host)) != problem:
            self.say(f"{host} of {pool.name}: its report is left out: {problem}")
        self._bad[pool.name, host] = problem
        return not problem

    def _of_job(self, job: str) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self.nomad.get(f"/v1/job/{quote(job)}/allocations") or []
        except ApiError as error:
            if error.status == 404:
                return []
            raise
        return found

    def _tell(self, pool: Pool, host: str, seen: Seen, admission: Admission) -> None:
        """Nomad keeps the metadata on the node itself, over restarts."""
        metadata = metadata_of(admission)
        if any(seen.metadata.get(key) != value for key, value in metadata.items()):
            self.nomad.post(METADATA.format(seen.node), {"Meta": metadata})
        last = self.known.get((pool.name, host))
        self.known[pool.name, host] = admission
        if last is None or (last.verdict, last.reason) != (admission.verdict, admission.reason):
            takes = "takes members" if admission.admitted else "takes no members"
            why = f": {admission.reason}" if admission.reason else ""
            self.say(f"{host} of {pool.name}: {admission.verdict}, {takes}{why}")

    def _write(self, pool: Pool, findings: list[Finding]) -> None:
        """The whole report of the pool, for `slipway check`."""
        made = self.folder / f"fabric-{pool.name}.new"
        made.write_text(json.dumps(rendered(findings), sort_keys=True) + "\n")
        made.replace(made.with_suffix(".json"))

    def _let_measure(self, pool: Pool, seen: Mapping[str, Seen]) -> tuple[str, ...]:
        """Those that wait for a measurement. One pair of a pool measures at a time."""
        now = self.clock()
        going_on = self._goes_on(pool, seen, now)
        standings = self._standings(pool, seen)
        if not going_on and (pair := next_pair(standings, now)):
            for host in pair:
                self._asked[pool.name, host] = now
                self._silent.pop((pool.name, host), None)
            self._turns[pool.name] = self._ask(pool, seen, pair, now)
        return unmeasured(standings)

    def _goes_on(self, pool: Pool, seen: Mapping[str, Seen], now: float) -> bool:
        turn = self._turns.get(pool.name)
        if turn is None:
            return False
        unanswered = turn.unanswered(seen)
        if unanswered and now <= turn.until:
            return True
        for host in unanswered:
            self._silent[pool.name, host] = now
            self.say(f"{host} of {pool.name}: did not answer when it was asked to measure")
        del self._turns[pool.name]
        return False

    def _standings(self, pool: Pool, seen: Mapping[str, Seen]) -> dict[str, Standing]:
        jobs = self.nomad.get("/v1/jobs?meta=true") or []
        groups = {each["ID"] for each in jobs if members_of(each) > 1}
        standings = {}
        for host, each in seen.items():
            if not each.report["address"]:
                continue  # nobody reaches it
            here = self.nomad.get(f"/v1/node/{each.node}/allocations") or []
            last = read_admission(each.metadata)
            standings[host] = Standing(
                idle=not any(
                    one["JobID"] in groups and one["ClientStatus"] in LIVE for one in here
                ),
                measured_s=_seconds(last.measured) if last and last.measured else None,
                failed=bool(last and last.verdict == "failed" and last.peer),
                peer=last.peer if last else "",
                asked_s=self._asked.get((pool.name, host)),
                silent_s=self._silent.get((pool.name, host)),
            )
        return standings

    def _ask(self, pool: Pool, seen: Mapping[str, Seen], pair: tuple[str, str], now: float) -> Turn:
        """A host that cannot be asked is one that does not answer."""
        measures, listens = pair
        turn = Turn(uuid.uuid4().hex[:12], pair, now + MEASURING_S)
        to_listen = Request(turn.id, LISTEN, turn.until, **_peer(seen, measures))
        port = seen[listens].report["port"]
        to_measure = Request(turn.id, MEASURE, turn.until, **_peer(seen, listens), port=port)
        for host, request in ((listens, to_listen), (measures, to_measure)):
            metadata = {REQUEST: write_request(request)}
            try:
                self.nomad.post(METADATA.format(seen[host].node), {"Meta": metadata})
            except ApiError as error:
                self.say(f"{host} of {pool.name}: {error}")
                break
        return turn


def _peer(seen: Mapping[str, Seen], host: str) -> dict[str, Any]:
    report = seen[host].report
    return {"peer": host, "address": report["address"], "peer_key": report["key"]}


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
