"""The input of a replay: schemas/replay.schema.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.core.scheduler import Limits
from simulator.core.step_time import Profile, UnknownProfileError, load_profile
from simulator.document import BadInputError, DocumentObject

from fleet.autoscaling import ScalingPolicy
from fleet.fleet import Fleet
from fleet.routing import ROUTERS
from fleet.trace import HASH_TOKENS, UNITS_MS

SCHEMA_VERSION = 1
_INTERVAL_S, _WINDOW_S = 5.0, 60.0  # as components/autoscaling


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """`speed` 2 makes the requests arrive in half the time."""

    path: Path
    unit: str
    speed: float
    skip_broken: bool


def parse_document(text: str) -> DocumentObject:
    """Raises BadInputError if the text is not a JSON object of this version."""
    try:
        document = DocumentObject(json.loads(text), "")
    except ValueError as error:
        raise BadInputError(f"not JSON: {error}") from error
    version = document.value("schema_version")
    if version != SCHEMA_VERSION:
        raise BadInputError(f"schema_version: {version!r}; this program reads {SCHEMA_VERSION}")
    return document


def trace_source(document: DocumentObject) -> TraceSource:
    trace = document.object("trace")
    return TraceSource(
        path=Path(trace.text("path")),
        unit=_one_of(trace, "timestamp_unit", "ms", UNITS_MS),
        speed=_positive(trace, "speed", 1.0),
        skip_broken=bool(trace.value("skip_broken", False)),
    )


def proposed_fleets(
    document: DocumentObject, profiles: Path, default_block_size: int
) -> list[Fleet]:
    fleets = document.value("fleets")
    if not isinstance(fleets, list) or not fleets:
        raise BadInputError("fleets: must be a list with at least one fleet")
    return [
        _fleet(DocumentObject(fleet, f"fleets[{index}]"), profiles, default_block_size)
        for index, fleet in enumerate(fleets)
    ]


def _fleet(fleet: DocumentObject, profiles: Path, default_block_size: int) -> Fleet:
    engine, goal = fleet.object("engine"), fleet.object("goal")
    return Fleet(
        name=fleet.text("name"),
        profile=_profile(fleet, profiles),
        limits=_limits(engine, default_block_size),
        max_model_len=engine.integer("max_model_len"),
        scaling=_scaling(fleet.object("replicas"), fleet.object("scaling")),
        startup_s=fleet.number("startup_s", 0),
        routing=_one_of(fleet, "routing", "least_request", ROUTERS),
        request_limit=fleet.integer("max_concurrent_requests_per_replica"),
        accelerators_per_replica=int(fleet.number("accelerators_per_replica", 0)),
        usd_per_hour_per_replica=_optional(fleet, "usd_per_hour_per_replica"),
        ttft_goal_ms=_optional(goal, "ttft_ms"),
        tpot_goal_ms=_optional(goal, "tpot_ms"),
    )


def _limits(engine: DocumentObject, default_block_size: int) -> Limits:
    block_size = engine.integer("block_size", default_block_size)
    if HASH_TOKENS % block_size:
        raise BadInputError(
            f"{engine.key('block_size')}: {block_size} must divide {HASH_TOKENS}, the tokens that "
            "one hash id of a trace stands for"
        )
    limits = Limits(
        max_num_seqs=engine.integer("max_num_seqs"),
        token_budget=engine.integer("max_num_batched_tokens"),
        kv_blocks=engine.integer("kv_tokens") // block_size,
        block_size=block_size,
    )
    if limits.token_budget < limits.max_num_seqs:
        raise BadInputError(
            f"{engine.key('max_num_batched_tokens')}: {limits.token_budget} must be at least "
            f"max_num_seqs ({limits.max_num_seqs})"
        )
    if limits.kv_blocks * block_size < engine.integer("max_model_len"):
        raise BadInputError(
            f"{engine.key('kv_tokens')}: {engine.integer('kv_tokens')} cannot hold a sequence of "
            f"max_model_len ({engine.integer('max_model_len')}) in blocks of {block_size}"
        )
    return limits


def _scaling(replicas: DocumentObject, scaling: DocumentObject) -> ScalingPolicy:
    policy = ScalingPolicy(
        min_replicas=replicas.integer("min"),
        max_replicas=replicas.integer("max"),
        target_inflight_per_replica=scaling.integer("target_inflight_per_replica"),
        cooldown_s=scaling.number("cooldown_s"),
        interval_s=_positive(scaling, "interval_s", _INTERVAL_S),
        window_s=_positive(scaling, "window_s", _WINDOW_S),
    )
    if policy.min_replicas > policy.max_replicas:
        raise BadInputError(
            f"{replicas.key('min')}: {policy.min_replicas} is greater than max "
            f"({policy.max_replicas})"
        )
    return policy


def _profile(fleet: DocumentObject, profiles: Path) -> Profile:
    """A row of profiles.json by its name, or the caller's own constants."""
    value = fleet.value("profile")
    if isinstance(value, str):
        try:
            return load_profile(profiles, profile=value)
        except UnknownProfileError as error:
            raise BadInputError(f"{fleet.key('profile')}: {error}") from error
    own = fleet.object("profile")
    return Profile(
        name=own.text("name"),
        kv_bytes_per_token=0,  # the document counts KV memory in tokens
        base_ms=_positive(own, "base_ms"),
        prefill_token_ms=own.number("prefill_token_ms"),
        sequence_ms=own.number("sequence_ms"),
        context_token_ms=own.number("context_token_ms"),
        source=own.text("source"),
        date="",
    )


def _positive(parent: DocumentObject, name: str, default: float | None = None) -> float:
    value = parent.number(name, default)
    if value == 0:
        raise BadInputError(f"{parent.key(name)}: must be greater than 0")
    return value


def _optional(parent: DocumentObject, name: str) -> float | None:
    return parent.number(name) if parent.has(name) else None


def _one_of(parent: DocumentObject, name: str, default: str, known: Mapping[str, Any]) -> str:
    value = str(parent.value(name, default))
    if value not in known:
        raise BadInputError(f"{parent.key(name)}: {value!r}; use one of: {', '.join(known)}")
    return value
