"""The document of the programs of services/fabric (schemas/fabric-pools.schema.json)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from slipway.plan.fabric import TCP, FabricCheckPlan
from slipway.plan.platform import Pool

SCHEMA_VERSION = 1


def check_of(pool: Pool) -> FabricCheckPlan:
    """Of a pool that has one."""
    assert pool.fabric_check is not None, "a pool with groups"  # noqa: S101
    return pool.fabric_check


def job_id(pool: str) -> str:
    """Of the job that checks the pool's hosts."""
    return f"fabric-check-{pool}"


def pools_document(pools: Iterable[Pool]) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "pools": {pool.name: _pool(pool) for pool in pools},
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _pool(pool: Pool) -> dict[str, Any]:
    check = check_of(pool)
    return {
        "job": job_id(pool.name),
        "planned": _planned(pool),
        "thresholds": {name: asdict(each) for name, each in check.thresholds.items()},
        "gaps_admit": check.gaps_admit,
        "measures": check.measures,
    }


def _planned(pool: Pool) -> dict[str, Any]:
    """What is not planned is not in it, and not checked."""
    fabric, check = pool.fabric, check_of(pool)
    over_tcp = fabric.kind == TCP
    interface = next(iter(fabric.interfaces), fabric.control_interface) if over_tcp else ""
    stated = {
        "devices": [each.device for each in fabric.hcas],
        "interface": interface,
        "rate_gbit_per_s": check.rate_gbit_per_s,
        "interface_mtu_bytes" if over_tcp else "mtu_bytes": fabric.mtu,
        "gid_index": fabric.gid_index,
        "gpudirect": fabric.gpudirect,
    }
    known = {key: value for key, value in stated.items() if value not in (None, "", [], False)}
    return {"kind": fabric.kind, **known}
