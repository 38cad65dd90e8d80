"""From what the hosts of a pool report to who may take members of groups. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fabric.document import VERSION, Check, read_check
from fabric.findings import Finding, Verdict, worst
from fabric.pool import Pool, completed
from fabric.verdicts import judge, verdicts_of_hosts

# Metadata of nodes. Those that differ from host to host are `unique.`: Nomad leaves them out of the
# classes of nodes, by which it remembers where a job does not fit.
FABRIC, MEMBERS, DETAILS = "fabric", "fabric_members", "unique.fabric.report"
WORDS = {Verdict.PASS: "passed", Verdict.FAIL: "failed", Verdict.GAP: "gap"}
YES, NO = "yes", "no"
ALONE = "not measured with another host yet"
NOTHING, LOOK = "nothing was checked", "slipway logs shows what its check says"
NO_ADDRESS = "has no IPv4 address"
GIVE_ADDRESS = "give it one (ip -4 address shows them), or name another in the pool's interfaces"
MEASURE = "it is measured once another host of the pool holds no member; slipway check HOST HOST"

Report = Mapping[str, Any]  # schemas/fabric-host.schema.json


@dataclass(frozen=True)
class Admission:
    """What is known of a host. `measured` is when it last took part in a measurement that counts,
    empty if never. The figures are those of what decided: the first failure, or else gap. `key` is
    that of the host's report."""

    verdict: str
    admitted: bool
    reason: str = ""
    fix: str = ""
    check: str = ""
    peer: str = ""
    figure: float | None = None
    threshold: float | None = None
    unit: str = ""
    measured: str = ""
    request: str = ""
    key: str = ""


def metadata_of(admission: Admission) -> dict[str, str]:
    details = asdict(admission)
    verdict, admitted = details.pop("verdict"), details.pop("admitted")
    return {
        FABRIC: verdict,
        MEMBERS: YES if admitted else NO,
        DETAILS: json.dumps(details, sort_keys=True),
    }


def read_admission(metadata: Mapping[str, str]) -> Admission | None:
    """None for a host of which nothing is known."""
    try:
        details = json.loads(metadata.get(DETAILS) or "")
        return Admission(metadata[FABRIC], metadata[MEMBERS] == YES, **details)
    except (ValueError, KeyError, TypeError):
        return None


def findings_of(pool: Pool, reports: Mapping[str, Report]) -> list[Finding]:
    """Of all hosts that report. Raises InputError for a pool that cannot be checked."""
    if not reports:
        return []
    check = _check(pool, reports)
    found = judge(check.planned, check.thresholds, check.hosts, check.pairs)
    return [*found, *_without_address(reports)]


def _without_address(reports: Mapping[str, Report]) -> list[Finding]:
    """Members listen at the host's address on the fabric."""
    interfaces = {
        host: report["interface"] for host, report in reports.items() if not report["address"]
    }
    return [
        Finding(host, "link", Verdict.FAIL, f"{name}: {NO_ADDRESS}", GIVE_ADDRESS, subject=name)
        for host, name in interfaces.items()
    ]


def admissions(
    pool: Pool,
    reports: Mapping[str, Report],
    findings: Sequence[Finding],
    before: Mapping[str, Admission | None],
    to_be_measured: Iterable[str],
) -> dict[str, Admission]:
    """Of the hosts that report. `before` is what was known; `to_be_measured` are those that measure
    with another host now or next, and wait for that.

    A failure between two hosts outlives its figures, which a host forgets when its settings change:
    only a later measurement ends it.
    """
    verdicts = verdicts_of_hosts(findings)
    measured, waiting = _measured(reports), set(to_be_measured)
    made: dict[str, Admission] = {}
    for host, report in reports.items():
        verdict = verdicts.get(host, Verdict.GAP)
        last = before.get(host)
        known = {
            "measured": max(measured.get(host, ""), _still_measured(last, report["key"])),
            "request": report["request"],
            "key": report["key"],
        }
        if verdict is Verdict.FAIL:
            decided = _decisive(host, findings, verdict)
            made[host] = _admission(host, decided, admitted=False, **known)
        elif last and _outlives(last, known["measured"]):
            made[host] = replace(last, request=report["request"], key=report["key"])
        elif not known["measured"] and _must_be_measured(pool, host, waiting):
            alone = Finding(host, "bandwidth", Verdict.GAP, ALONE, MEASURE)
            made[host] = _admission(host, alone, admitted=False, **known)
        elif verdict is Verdict.GAP:
            decided = _decisive(host, findings, verdict)
            made[host] = _admission(host, decided, admitted=pool.gaps_admit, **known)
        else:
            made[host] = Admission(WORDS[Verdict.PASS], admitted=True, **known)
    return made


def _still_measured(last: Admission | None, key: str) -> str:
    """When the host measured, if it passed with the settings that it has. Its figures end with the
    allocation of its check, and a host with a member cannot measure again."""
    holds = last is not None and last.verdict == WORDS[Verdict.PASS] and last.key == key
    return last.measured if last and holds else ""


def _outlives(last: Admission, measured: str) -> bool:
    """Whether a failure between two hosts still holds: nothing was measured since."""
    return last.verdict == WORDS[Verdict.FAIL] and bool(last.peer) and measured <= last.measured


def _must_be_measured(pool: Pool, host: str, waiting: set[str]) -> bool:
    """Over TCP one that finds nobody to measure with is judged by what it says itself."""
    return pool.measures and (host in waiting or not pool.gaps_admit)


def _admission(host: str, decided: Finding, *, admitted: bool, **known: str) -> Admission:
    """`known` are `measured`, `request` and `key`."""
    other = decided.peer if decided.host == host else decided.host
    return Admission(
        WORDS[decided.verdict],
        admitted,
        reason=decided.reason,
        fix=decided.fix,
        check=decided.check,
        peer=(other or "") if decided.peer else "",
        figure=decided.figure,
        threshold=decided.threshold,
        unit=decided.unit,
        **known,
    )


def _decisive(host: str, findings: Sequence[Finding], verdict: Verdict) -> Finding:
    """The first finding with the host's own verdict. Those of the host alone come first."""
    mine = [each for each in findings if host in (each.host, each.peer)]
    ordered = sorted(mine, key=lambda each: each.peer is not None)
    nothing = Finding(host, "tools", Verdict.GAP, NOTHING, LOOK)
    return next((each for each in ordered if each.verdict is verdict), nothing)


def _check(pool: Pool, reports: Mapping[str, Report]) -> Check:
    """As schemas/fabric-check.schema.json."""
    planned = _planned(pool, reports)
    document = {
        "schema_version": VERSION,
        "planned": planned,
        "thresholds": pool.thresholds,
        "hosts": [{"name": host, "outputs": report["outputs"]} for host, report in reports.items()],
        "pairs": [
            {"host": host, "peer": pair["peer"], "outputs": pair["outputs"]}
            for host, pair in _pairs(pool, planned, reports)
        ],
    }
    return read_check(document)


def _planned(pool: Pool, reports: Mapping[str, Report]) -> dict[str, Any]:
    """Hosts of a pool are alike: what is not planned is as on the first. Adapters are those that at
    least half of the hosts use, so one whose port went down is missed."""
    first = next(iter(reports.values()))
    hosts = Counter(device for report in reports.values() for device in set(report["devices"]))
    usual = sorted(device for device, count in hosts.items() if 2 * count >= len(reports))
    return completed(pool.planned, first["interface"], usual)


def _pairs(
    pool: Pool, planned: dict[str, Any], reports: Mapping[str, Report]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Measurements between hosts that report, without failures that both hosts have left behind
    with a later pass."""
    found = [
        (host, pair)
        for host, report in reports.items()
        for pair in report["pairs"]
        if pair["peer"] in reports and not _is_outdated(pair, reports)
    ]
    passed: dict[str, str] = {}
    for host, pair in found:
        if _passes(pool, planned, host, pair):
            for each in (host, pair["peer"]):
                passed[each] = max(passed.get(each, ""), pair["at"])
    return [
        (host, pair)
        for host, pair in found
        if not all(passed.get(each, "") > pair["at"] for each in (host, pair["peer"]))
    ]


def _passes(pool: Pool, planned: dict[str, Any], host: str, pair: Mapping[str, Any]) -> bool:
    document = {
        "planned": planned,
        "thresholds": pool.thresholds,
        "hosts": [],
        "pairs": [{"host": host, "peer": pair["peer"], "outputs": pair["outputs"]}],
    }
    check = read_check(document)
    found = judge(check.planned, check.thresholds, check.hosts, check.pairs)
    return worst(found) is Verdict.PASS


def _is_outdated(pair: Mapping[str, Any], reports: Mapping[str, Report]) -> bool:
    """Whether the host that listened has other settings by now. The one that measured forgets its
    pairs by itself."""
    peer = reports.get(pair["peer"])
    return peer is not None and peer["key"] != pair["peer_key"]


def _measured(reports: Mapping[str, Report]) -> dict[str, str]:
    """When each host last took part in a measurement with one that reports."""
    newest: dict[str, str] = {}
    for host, report in reports.items():
        for pair in report["pairs"]:
            if _is_outdated(pair, reports):
                continue
            for each in (host, pair["peer"]):
                newest[each] = max(newest.get(each, ""), pair["at"])
    return newest
