"""An outcome in numbers. Times are simulated, not measured on any hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fleet.fleet import Fleet, Outcome, Record

_MS_PER_HOUR = 3_600_000
_MS_PER_MINUTE = 60_000
_QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def report(outcome: Outcome) -> dict[str, Any]:
    """One fleet of schemas/replay_result.schema.json."""
    fleet, records = outcome.fleet, outcome.records
    served = [record for record in records if record.dropped is None]
    good = sum(within_goal(record, fleet) for record in served)
    hours = outcome.ended_ms / _MS_PER_HOUR
    replica_hours = outcome.replica_ms / _MS_PER_HOUR
    price = fleet.usd_per_hour_per_replica
    return {
        "name": fleet.name,
        "profile": fleet.profile.name,
        "profile_source": fleet.profile.source,
        "kv_block_tokens": fleet.limits.block_size,
        "requests": len(records),
        "completed": len(served),
        "dropped": dict(sorted(Counter(each.dropped for each in records if each.dropped).items())),
        "ttft_ms": quantiles([ttft_ms(record) for record in served]),
        "tpot_ms": quantiles([tpot for record in served if (tpot := tpot_ms(record)) is not None]),
        "e2e_ms": quantiles([e2e_ms(record) for record in served]),
        "goal": {"ttft_ms": fleet.ttft_goal_ms, "tpot_ms": fleet.tpot_goal_ms},
        "goodput_share": good / len(records) if records else None,
        "goodput_requests_per_s": good / (hours * 3600) if hours else None,
        "output_tokens_per_s": _output_tokens(served) / (hours * 3600) if hours else None,
        "duration_s": outcome.ended_ms / 1000,
        "replica_hours": replica_hours,
        "accelerator_hours": replica_hours * fleet.accelerators_per_replica,
        "cost_usd": None if price is None else replica_hours * price,
        "replicas": [
            {
                "at_s": count.at_ms / 1000,
                "ready": count.ready,
                "starting": count.starting,
                "draining": count.draining,
            }
            for count in outcome.counts
        ],
        "minutes": _minutes(records),
        "prefix_cache_hit_share": (
            outcome.cached_tokens / outcome.prompt_tokens if outcome.prompt_tokens else None
        ),
        "preemptions": outcome.preemptions,
    }


def _minutes(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The requests of each minute, and their TTFT."""
    arrived: dict[int, list[Record]] = {}
    for record in records:
        arrived.setdefault(int(record.request.arrived_ms // _MS_PER_MINUTE), []).append(record)
    minutes = []
    for minute, some in sorted(arrived.items()):
        served = [ttft_ms(record) for record in some if record.dropped is None]
        minutes.append(
            {
                "at_s": minute * 60,
                "requests": len(some),
                "dropped": len(some) - len(served),
                "ttft_p95_ms": quantiles(served)["p95"],
            }
        )
    return minutes


def ttft_ms(record: Record) -> float:
    assert record.timing.first_token_ms is not None  # noqa: S101 - every admitted one is served
    return record.timing.first_token_ms - record.timing.arrived_ms


def e2e_ms(record: Record) -> float:
    assert record.timing.finished_ms is not None  # noqa: S101
    return record.timing.finished_ms - record.timing.arrived_ms


def tpot_ms(record: Record) -> float | None:
    """Mean time between the tokens of one answer; None when there is only one."""
    gaps = record.request.output_tokens - 1
    return (e2e_ms(record) - ttft_ms(record)) / gaps if gaps else None


def within_goal(record: Record, fleet: Fleet) -> bool:
    """Whether one served request meets both goals; a goal that is not set is met."""
    if fleet.ttft_goal_ms is not None and ttft_ms(record) > fleet.ttft_goal_ms:
        return False
    tpot = tpot_ms(record)
    return fleet.tpot_goal_ms is None or tpot is None or tpot <= fleet.tpot_goal_ms


def quantiles(values: Sequence[float]) -> dict[str, float | None]:
    """p50, p95, p99 (linear between neighbours, as numpy's default) and the mean."""
    ordered = sorted(values)
    if not ordered:
        return {**dict.fromkeys(_QUANTILES), "mean": None}
    found = {name: _quantile(ordered, share) for name, share in _QUANTILES.items()}
    return {**found, "mean": sum(ordered) / len(ordered)}


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _output_tokens(records: Sequence[Record]) -> int:
    return sum(record.request.output_tokens for record in records)
