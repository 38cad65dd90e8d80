"""The commands of a check, by what is planned. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.planned import Planned, Thresholds
from fabric.tools import needed_of_host, needed_of_pair

# Large enough that the adapter's message rate is not the limit (fabric/pair_checks.py).
MESSAGE_BYTES = 65536
LATENCY_ITERATIONS = 10_000  # percentiles come with iterations, and not with a duration


@dataclass(frozen=True)
class Command:
    tool: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Measurement:
    """A tool that runs on both hosts: one `listens`, the other `measures`."""

    tool: str
    device: str | None
    listens: tuple[str, ...]
    measures: tuple[str, ...]


def host_commands(planned: Planned, interface: str) -> list[Command]:
    words = {
        "ibstat": ("ibstat",),
        "ibv_devinfo": ("ibv_devinfo", "-v"),
        "show_gids": ("show_gids",),
        "lspci": ("lspci", "-vvv"),
        "lsmod": ("lsmod",),
        "nvidia_version": ("cat", "/proc/driver/nvidia/version"),
        "uname": ("uname", "-r"),
        "ulimit": ("sh", "-c", "ulimit -l"),
        "ethtool": ("ethtool", interface),
        "ip_link": ("ip", "-s", "link", "show", interface),
    }
    tools = [*needed_of_host(planned)]
    if planned.gpudirect:
        tools += ["nvidia_version", "uname"]
    if planned.kind == "roce" and planned.gid_index is not None:
        tools.append("show_gids")
    return [Command(tool, words[tool]) for tool in tools]


def measurements(
    planned: Planned, thresholds: Thresholds, *, peer: str, port: int
) -> list[Measurement]:
    """In the order in which both hosts run them, one after the other. `peer` is the address of the
    host that listens, at `port`. Those that need more than two commands are left out, and are gaps:
    all_reduce_perf takes MPI, and a launcher that both hosts trust."""
    made = []
    for tool, device in needed_of_pair(planned, thresholds):
        if tool in ("ib_write_bw", "ib_write_lat"):
            words = _perftest(planned, tool, device or "", port)
            made.append(Measurement(tool, device, words, (*words, peer)))
        elif tool == "fi_pingpong":
            words = (tool, "-p", "efa")
            listens, measures = (*words, "-B", str(port)), (*words, "-P", str(port), peer)
            made.append(Measurement(tool, device, listens, measures))
    return made


def _perftest(planned: Planned, tool: str, device: str, port: int) -> tuple[str, ...]:
    """perftest's README: -F goes on though the processor's frequency varies, -x is the GID."""
    gid = () if planned.gid_index is None else ("-x", str(planned.gid_index))
    if tool == "ib_write_bw":
        how: tuple[str, ...] = ("--report_gbits", "-s", str(MESSAGE_BYTES))
    else:
        how = ("-n", str(LATENCY_ITERATIONS))
    return (tool, "-d", device, "-p", str(port), "-F", *gid, *how)
