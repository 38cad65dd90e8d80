"""Measurements between two hosts against thresholds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from fabric.findings import Finding
from fabric.place import Figure, Place
from fabric.port_checks import CABLE, SET_GID, SET_MTU
from fabric.readings.libfabric import PingPong
from fabric.readings.nccl import AllReduce
from fabric.readings.perftest import Bandwidth, Connection, Latency
from fabric.readings.tcp import TcpFigures

# Below this size the adapter's message rate is the limit, and not the link.
TELLING_BYTES = 65536
CONGESTION = "look for load on the hosts, power saving, and congestion in the switches"


def check_bandwidth(place: Place, reading: Bandwidth) -> Iterator[Finding]:
    device = reading.connection.device
    yield from _check_connection(place, reading.connection)
    if reading.message_bytes < TELLING_BYTES:
        yield place.gap(
            "bandwidth",
            f"{device}: messages of {reading.message_bytes} bytes tell nothing of the link's rate",
            f"measure with messages of {TELLING_BYTES} bytes or more",
            subject=device,
        )
        return
    least = place.thresholds.bandwidth_share * (place.planned.rate_gbit_per_s or 0)
    figure = reading.average_gbit_per_s
    yield place.at_least("bandwidth", device, Figure("ib_write_bw", figure, "Gbit/s"), least, CABLE)


def check_latency(place: Place, reading: Latency) -> Iterator[Finding]:
    """The maximum is not judged: it is mostly the first message (perftest's README)."""
    device, limits = reading.connection.device, place.thresholds
    yield from _check_connection(place, reading.connection)
    yield place.at_most(
        "latency",
        device,
        Figure("ib_write_lat typically", reading.typical_us, "us"),
        limits.latency_us,
        CONGESTION,
    )
    jitter, tail = reading.p999_us - reading.typical_us, f"99.9 % in {reading.p999_us:g} us, jitter"
    yield place.at_most("jitter", device, Figure(tail, jitter, "us"), limits.jitter_us, CONGESTION)


def check_pingpong(place: Place, reading: PingPong) -> Iterator[Finding]:
    most, device = place.thresholds.latency_us, place.planned.devices[0]
    fix = "look whether fi_info lists the provider efa, and the security group admits itself"
    yield place.at_most(
        "latency", device, Figure("fi_pingpong", reading.transfer_us, "us"), most, fix
    )


def check_all_reduce(place: Place, reading: AllReduce) -> Iterator[Finding]:
    subject = "all_reduce_perf"
    if reading.wrong_values:
        yield place.fails(
            "all_reduce",
            f"{subject}: {reading.wrong_values} wrong values",
            "turn PCIe ACS off, then look for faulty accelerators and memory",
            subject=subject,
            figure=reading.wrong_values,
            threshold=0,
            unit="values",
        )
        return
    least = place.thresholds.all_reduce_bus_gbyte_per_s
    if least is not None:
        yield place.at_least(
            "all_reduce",
            subject,
            Figure("bus bandwidth", reading.bus_gbyte_per_s, "GB/s"),
            least,
            "look at GPUDirect, ACS and each rail's ib_write_bw first",
        )


def check_tcp(place: Place, reading: TcpFigures) -> Iterator[Finding]:
    interface, limits = place.planned.interface or "", place.thresholds
    least = limits.bandwidth_share * (place.planned.rate_gbit_per_s or 0)  # 0: none is planned
    median, p99 = reading.round_trip_median_us, reading.round_trip_p99_us
    yield place.at_least(
        "bandwidth", interface, Figure("TCP", reading.gbit_per_s, "Gbit/s"), least, CABLE
    )
    if reading.received_gbit_per_s is not None:
        received = Figure("TCP from the other host", reading.received_gbit_per_s, "Gbit/s")
        yield place.at_least("bandwidth", interface, received, least, CABLE)
    yield place.at_most(
        "latency", interface, Figure("round trip", median, "us"), limits.latency_us, CONGESTION
    )
    tail = f"99 % of round trips in {p99:.0f} us, jitter"
    yield place.at_most(
        "jitter", interface, Figure(tail, p99 - median, "us"), limits.jitter_us, CONGESTION
    )


def check_rails(place: Place, rates_gbit_per_s: Mapping[str, float]) -> Iterator[Finding]:
    """Names a rail that is much slower than its siblings, by their median."""
    for device, rate in rates_gbit_per_s.items():
        others = [each for name, each in rates_gbit_per_s.items() if name != device]
        if not others:
            continue
        usual = statistics.median(others)
        least = place.thresholds.rail_share * usual
        said = f"beside others of {usual:.4g} Gbit/s it has"
        yield place.at_least("rail", device, Figure(said, rate, "Gbit/s"), least, CABLE)


def _check_connection(place: Place, connection: Connection) -> Iterator[Finding]:
    """What the two ends agreed on is not always what each port offers."""
    planned, device = place.planned, connection.device
    if planned.mtu_bytes is not None:
        yield place.equal(
            "mtu", device, Figure("MTU", connection.mtu_bytes, "bytes"), planned.mtu_bytes, SET_MTU
        )
    gid = connection.gid_index
    if planned.kind == "roce" and planned.gid_index is not None and gid is not None:
        yield place.equal("gid", device, Figure("GID index", gid, ""), planned.gid_index, SET_GID)
