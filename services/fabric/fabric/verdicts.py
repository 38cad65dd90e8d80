"""From the outputs of tools to findings, and from findings to a verdict for each host.

Pure: outputs, plan and thresholds come in, a report goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fabric import host_checks, pair_checks, port_checks
from fabric.findings import Finding, Verdict, worst
from fabric.place import Place
from fabric.planned import Planned, Thresholds
from fabric.pool_checks import check_same_mtu
from fabric.readings.errors import AbsentError, ReadingError, ToolFailedError
from fabric.readings.ports import HcaPort
from fabric.tools import OF_HOSTS, OF_PAIRS, Tool, needed_of_host, needed_of_pair

PLAN_WHAT_IS_THERE = "name an interface that every host of the pool has (ip link lists them)"
UNREACHED = "look whether both hosts reach each other over the fabric, and run the tool by hand"
UNREADABLE = "run it by hand, and report a form that this version does not know"

Check = Callable[[Place, Any], Iterator[Finding]]


@dataclass(frozen=True)
class Output:
    """What a tool printed, and its exit code. `device` is the rail that it was run for."""

    tool: str
    text: str
    exit_code: int = 0
    device: str | None = None


def judge(
    planned: Planned,
    thresholds: Thresholds,
    hosts: Mapping[str, Sequence[Output]],
    pairs: Mapping[tuple[str, str], Sequence[Output]],
) -> list[Finding]:
    """All findings about the hosts of a pool, by themselves, in pairs and among each other."""
    places = {host: Place(host, planned, thresholds) for host in hosts}
    readings: dict[str, dict[str, Any]] = {}
    findings: list[Finding] = []
    for host, outputs in hosts.items():
        readings[host], unread = _read(places[host], outputs, OF_HOSTS, Verdict.GAP)
        findings += [*unread, *_judge_host(places[host], readings[host])]
        findings += _missing(places[host], {output.tool for output in outputs})
    ports = {host: _ports(found) for host, found in readings.items()}
    findings += port_checks.check_firmware(places, ports)
    findings += check_same_mtu(places, readings)
    for (host, peer), outputs in pairs.items():
        findings += _judge_pair(Place(host, planned, thresholds, peer), outputs)
    return findings


def verdicts_of_hosts(findings: Sequence[Finding]) -> dict[str, Verdict]:
    """Of every host that a finding names. A failure between two hosts counts against both, unless
    one has passed the same check with another host: then it is the other one's."""
    hosts = {host for finding in findings for host in (finding.host, finding.peer) if host}
    passed = {
        (host, finding.check, finding.subject)
        for finding in findings
        if finding.peer and finding.verdict is Verdict.PASS
        for host in (finding.host, finding.peer)
    }
    return {
        host: worst(each for each in findings if _counts(host, each, passed))
        for host in sorted(hosts)
    }


def _counts(host: str, finding: Finding, passed: set[tuple[str, str, str | None]]) -> bool:
    if host not in (finding.host, finding.peer):
        return False
    if finding.peer is None or finding.verdict is not Verdict.FAIL:
        return True
    what = (finding.check, finding.subject)
    other = finding.peer if host == finding.host else finding.host
    return (host, *what) not in passed or (other, *what) in passed


def _read(
    place: Place, outputs: Sequence[Output], tools: Mapping[str, Tool], failed: Verdict
) -> tuple[dict[str, Any], list[Finding]]:
    """Readings by the tool and, where it is run for one, the device; `failed` is what it means when
    a tool fails: of a host's tools a gap, of a measurement a failure."""
    readings: dict[str, Any] = {}
    unread: list[Finding] = []
    for output in outputs:
        tool = tools[output.tool]
        try:
            reading = tool.parse(output.text)
            if output.exit_code:
                raise ToolFailedError(output.tool, f"it ended with {output.exit_code}")
            readings[f"{output.tool} {output.device or ''}".strip()] = reading
        except AbsentError as error:
            unread.append(place.fails("link", str(error), PLAN_WHAT_IS_THERE))
        except ReadingError as error:
            tool_failed = isinstance(error, ToolFailedError) or output.exit_code != 0
            said = place.fails if tool_failed and failed is Verdict.FAIL else place.gap
            reason = _failure(output) if output.exit_code else str(error)
            fix = UNREACHED if said == place.fails else UNREADABLE
            unread.append(said(tool.check, reason, fix, subject=output.device))
    return readings, unread


def _failure(output: Output) -> str:
    """Tools end with the reason."""
    lines = [line.strip() for line in output.text.splitlines() if line.strip()]
    said = f": {lines[-1][:200]}" if lines else ""
    return f"{output.tool} failed: it ended with {output.exit_code}{said}"


def _judge_host(place: Place, readings: Mapping[str, Any]) -> Iterator[Finding]:
    checks: Mapping[str, Check] = {
        "ibstat": port_checks.check_ports,
        "ibv_devinfo": port_checks.check_ports,
        "show_gids": port_checks.check_gid_table,
        "lspci": host_checks.check_access_control,
        "ulimit": host_checks.check_locked_memory,
        "ethtool": host_checks.check_speed,
        "ip_link": host_checks.check_interface,
    }
    for tool, check in checks.items():
        if tool in readings:
            yield from check(place, readings[tool])
    memory = (readings.get(tool) for tool in ("lsmod", "nvidia_version", "uname"))
    yield from host_checks.check_peer_memory(place, *memory)


def _judge_pair(place: Place, outputs: Sequence[Output]) -> Iterator[Finding]:
    checks: Mapping[str, Check] = {
        "ib_write_bw": pair_checks.check_bandwidth,
        "ib_write_lat": pair_checks.check_latency,
        "fi_pingpong": pair_checks.check_pingpong,
        "all_reduce_perf": pair_checks.check_all_reduce,
        "tcp_check": pair_checks.check_tcp,
    }
    readings, unread = _read(place, outputs, OF_PAIRS, Verdict.FAIL)
    yield from unread
    rates: dict[str, float] = {}
    for key, reading in readings.items():
        tool = key.partition(" ")[0]
        yield from checks[tool](place, reading)
        if tool == "ib_write_bw":
            rates[reading.connection.device] = reading.average_gbit_per_s
    yield from pair_checks.check_rails(place, rates)
    given = {(output.tool, output.device) for output in outputs}
    for tool, device in needed_of_pair(place.planned, place.thresholds):
        if (tool, device) not in given:
            yield _gap_of_tool(place, tool, OF_PAIRS[tool], device)


def _missing(place: Place, given: set[str]) -> Iterator[Finding]:
    for tool in needed_of_host(place.planned):
        if tool not in given:
            yield _gap_of_tool(place, tool, OF_HOSTS[tool], None)
    planned = place.planned
    tables = given & {"ibv_devinfo", "show_gids"}
    if planned.kind == "roce" and planned.gid_index is not None and not tables:
        yield _gap_of_tool(place, "show_gids", OF_HOSTS["show_gids"], None)


def _gap_of_tool(place: Place, name: str, tool: Tool, device: str | None) -> Finding:
    where = f" for {device}" if device else ""
    said = f"there is no output of {name}{where}"
    return place.gap("tools", said, f"install {name} ({tool.package})", subject=device or name)


def _ports(readings: Mapping[str, Any]) -> tuple[HcaPort, ...]:
    found: tuple[HcaPort, ...] = readings.get("ibstat") or readings.get("ibv_devinfo") or ()
    return found
