"""The tools of the check: what reads each one's output, and who has to run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fabric.planned import Planned, Thresholds
from fabric.readings.gids import parse_show_gids
from fabric.readings.interfaces import parse_ethtool, parse_ip_link
from fabric.readings.libfabric import parse_pingpong
from fabric.readings.limits import parse_ulimit
from fabric.readings.modules import parse_modules, parse_nvidia_version, parse_uname
from fabric.readings.nccl import parse_all_reduce
from fabric.readings.pcie import parse_lspci
from fabric.readings.perftest import parse_write_bw, parse_write_lat
from fabric.readings.ports import parse_devinfo, parse_ibstat
from fabric.readings.tcp import parse_tcp


@dataclass(frozen=True)
class Tool:
    """`check` is what an output that cannot be read is a gap of; `package` is Debian's."""

    parse: Callable[[str], Any]
    check: str
    package: str


OF_HOSTS = {
    "ibstat": Tool(parse_ibstat, "ibstat", "infiniband-diags"),
    "ibv_devinfo": Tool(parse_devinfo, "ibv_devinfo", "ibverbs-utils"),
    "show_gids": Tool(parse_show_gids, "gid", "mlnx-tools"),
    "lspci": Tool(parse_lspci, "acs", "pciutils"),
    "lsmod": Tool(parse_modules, "peer_memory", "kmod"),
    "nvidia_version": Tool(parse_nvidia_version, "peer_memory", "NVIDIA's driver"),
    "uname": Tool(parse_uname, "peer_memory", "coreutils"),
    "ulimit": Tool(parse_ulimit, "locked_memory", "a shell"),
    "ethtool": Tool(parse_ethtool, "rate", "ethtool"),
    "ip_link": Tool(parse_ip_link, "mtu", "iproute2"),
}
OF_PAIRS = {
    "ib_write_bw": Tool(parse_write_bw, "bandwidth", "perftest"),
    "ib_write_lat": Tool(parse_write_lat, "latency", "perftest"),
    "fi_pingpong": Tool(parse_pingpong, "latency", "libfabric-bin"),
    "all_reduce_perf": Tool(parse_all_reduce, "all_reduce", "nccl-tests, built from source"),
    "tcp_check": Tool(parse_tcp, "bandwidth", "this service"),
}
_VERBS = ("ibstat", "ibv_devinfo", "lspci", "ulimit")


def needed_of_host(planned: Planned) -> tuple[str, ...]:
    if planned.kind == "tcp":
        return ("ip_link",) if planned.rate_gbit_per_s is None else ("ethtool", "ip_link")
    if planned.kind == "efa":  # ibstat knows no EFA, and ACS is AWS's matter
        return ("ulimit", *(("lsmod",) if planned.gpudirect else ()))
    interface = ("ip_link",) if planned.interface_mtu_bytes is not None else ()
    return (*_VERBS, *(("lsmod",) if planned.gpudirect else ()), *interface)


def needed_of_pair(planned: Planned, thresholds: Thresholds) -> tuple[tuple[str, str | None], ...]:
    """Tools and the device that each is run for; None for all of them together."""
    if planned.kind == "tcp":
        return (("tcp_check", None),)
    collective = () if thresholds.all_reduce_bus_gbyte_per_s is None else ("all_reduce_perf",)
    together = (("fi_pingpong",) if planned.kind == "efa" else ()) + collective
    each = () if planned.kind == "efa" else ("ib_write_bw", "ib_write_lat")
    return (
        *((tool, device) for tool in each for device in planned.devices),
        *((tool, None) for tool in together),
    )
