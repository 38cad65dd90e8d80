"""What the plan says of a fabric, and the thresholds of its check, out of the document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from program.errors import InputError

KINDS = ("infiniband", "roce", "efa", "tcp")
SHARES = ("bandwidth_share", "rail_share")
_ALL_REDUCE = "all_reduce_bus_gbyte_per_s"
_NAMES = (*SHARES, "latency_us", "jitter_us", _ALL_REDUCE)
_DATE = re.compile(r"20\d\d-\d\d-\d\d$")


@dataclass(frozen=True)
class Thresholds:
    """`bandwidth_share` is the least share of the line rate, `rail_share` the least share of the
    median of the other rails. `latency_us` is the most that the typical message takes: one way over
    RDMA, there and back over TCP. `jitter_us` is the most by which the slow ones exceed it: 99.9 %
    over RDMA, 99 % over TCP. `all_reduce_bus_gbyte_per_s` depends on the topology; without it
    collectives are not checked."""

    bandwidth_share: float
    rail_share: float
    latency_us: float
    jitter_us: float
    all_reduce_bus_gbyte_per_s: float | None = None


@dataclass(frozen=True)
class Planned:
    """The same for all hosts of a pool. `devices` are one a rail; TCP has none. None is not
    planned, and not checked. Without a width InfiniBand's usual 4 lanes are not demanded."""

    kind: str
    devices: tuple[str, ...]
    interface: str | None
    rate_gbit_per_s: float | None
    width_lanes: int | None
    mtu_bytes: int | None
    gid_index: int | None
    interface_mtu_bytes: int | None
    gpudirect: bool


def read_planned(document: Mapping[str, Any]) -> Planned:
    """`planned` of a document. Raises InputError for impossible values, KeyError for missing
    ones."""
    kind = document["kind"]
    if kind not in KINDS:
        raise InputError(f"planned.kind: {kind!r} is unknown; use one of {', '.join(KINDS)}")
    rate = document.get("rate_gbit_per_s")
    planned = Planned(
        kind=kind,
        devices=tuple(document.get("devices", ())),
        interface=document.get("interface"),
        rate_gbit_per_s=None if rate is None else _positive("planned.rate_gbit_per_s", rate),
        width_lanes=document.get("width"),
        mtu_bytes=document.get("mtu_bytes"),
        gid_index=document.get("gid_index"),
        interface_mtu_bytes=document.get("interface_mtu_bytes"),
        gpudirect=document.get("gpudirect", False),
    )
    if kind == "tcp" and not planned.interface:
        raise InputError("planned.interface: is missing; name the interface that TCP goes over")
    if kind != "tcp" and not planned.devices:
        raise InputError("planned.devices: is empty; name the adapter of each rail")
    return planned


def read_thresholds(document: Mapping[str, Any], planned: Planned) -> Thresholds:
    """`thresholds` of a document, each with its source and date. Raises InputError for one that no
    link can reach."""
    unknown = sorted(set(document) - set(_NAMES))
    if unknown:
        raise InputError(f"thresholds.{unknown[0]}: is unknown; known are {', '.join(_NAMES)}")
    values = {name: _threshold(name, entry) for name, entry in document.items()}
    for name in SHARES:
        if values[name] > 1:
            raise InputError(
                f"thresholds.{name}: {values[name]:g} is above the line rate; use at most 1"
            )
    rails_gbyte_per_s = (planned.rate_gbit_per_s or 0) * len(planned.devices) / 8
    wanted = values.get(_ALL_REDUCE)
    if wanted is not None and wanted > rails_gbyte_per_s:
        raise InputError(
            f"thresholds.{_ALL_REDUCE}: {wanted:g} is above the line rate of all rails, "
            f"{rails_gbyte_per_s:g} GB/s; use less"
        )
    return Thresholds(**values)


def _threshold(name: str, entry: Mapping[str, Any]) -> float:
    if not entry["source"] or not _DATE.match(entry["date"]):
        raise InputError(f"thresholds.{name}: has no source or no date; give both (2026-11-29)")
    return _positive(f"thresholds.{name}", entry["value"])


def _positive(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise InputError(f"{key}: {value!r} is not above 0; give a positive number")
    return float(value)
