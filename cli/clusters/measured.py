"""Measurements of a running environment, read from its Prometheus.

Which accelerators a replica has, only Nomad knows: their figures are found by their UUIDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx

from cli.applied import Applied
from cli.clusters.nomad import allocations_now
from cli.clusters.prometheus import Prometheus, Series
from cli.clusters.replicas import running
from cli.environment import Environment
from cli.errors import CliError
from slipway.inputs import PlanInputs
from slipway.planner.engines.adapter import EngineMetrics, InfoLabel
from slipway.planner.engines.registry import engine_of
from slipway.planner.reports.comparison import Measured, MeasuredDevices
from slipway.planner.units import MIB

P95 = "histogram_quantile(0.95, sum by (le) (rate({name}_bucket{{{of}}}[{window}s]))) * 1000"
RATE = "sum(rate({name}{{{of}}}[{window}s]))"
MEAN = "avg(avg_over_time({name}{{{of}}}[{window}s]))"
# Each replica's engine is scraped once (components/serving/nomad_job.py): through the service for
# clients, or through one of its own where clients speak gRPC only.
REPLICAS = 'count(up{{{of}, service=~".+-(openai|engine)"}} == 1)'
# The first is of every accelerator, the second not of MIG instances (services/devices).
DEVICES = "slipway_device_healthy"
USED_MIB = "DCGM_FI_DEV_FB_USED"

Allocations = Sequence[Mapping[str, Any]]


def ask(
    environment: Environment, applied: Applied, inputs: PlanInputs, *, window_s: int
) -> dict[str, Measured]:
    """Measurements of each model. CliError when Prometheus does not answer; without Nomad, the
    jobs and the devices of the models are not known."""
    metrics = {name: engine_of(model).metrics for name, model in inputs.models.items()}
    allocations = allocations_now(environment, applied) or ()
    try:
        return measure(applied, metrics, allocations, window_s=window_s)
    except httpx.HTTPError as error:
        raise CliError(
            f"Prometheus of {applied.environment} does not answer: {error}",
            fix=f"slipway status -s {applied.environment} shows what runs, and what to do if"
            " nothing does; then run the same command again",
        ) from None


def measure(
    applied: Applied,
    metrics: Mapping[str, EngineMetrics],
    allocations: Allocations,
    *,
    window_s: int,
) -> dict[str, Measured]:
    """By model name, as are `metrics`. Raises httpx.HTTPError when Prometheus does not answer."""
    with Prometheus(applied) as client:
        return {
            model: _model(client, model, names, allocations, window_s)
            for model, names in metrics.items()
        }


def _model(
    client: Prometheus,
    model: str,
    metrics: EngineMetrics,
    allocations: Allocations,
    window_s: int,
) -> Measured:
    of = f'model="{model}"'

    def p95(name: str) -> float | None:
        return client.number(P95.format(name=name, of=of, window=window_s))

    def rate(name: str) -> float:
        return client.number(RATE.format(name=name, of=of, window=window_s)) or 0.0

    def mean(name: str) -> float | None:
        return client.number(MEAN.format(name=name, of=of, window=window_s))

    replicas = running(allocations, model)
    requests_per_s, output_per_s = rate(metrics.requests), rate(metrics.output_tokens)
    return Measured(
        window_s=window_s,
        jobs=replicas.jobs,
        replicas=int(client.number(REPLICAS.format(of=of)) or 0),
        requests_per_s=requests_per_s,
        output_tokens_per_s=output_per_s,
        concurrency=mean(metrics.running) or 0.0,
        kv_cache_usage=mean(metrics.kv_cache_usage),
        kv_tokens=_kv_tokens(
            client.series(f"{metrics.kv_tokens.metric}{{{of}}}"), metrics.kv_tokens
        ),
        devices=_devices(client, replicas.devices),
        input_tokens=_per_request(rate(metrics.input_tokens), requests_per_s),
        output_tokens=_per_request(output_per_s, requests_per_s),
        ttft_ms=_mean_ms(rate(f"{metrics.ttft}_sum"), rate(f"{metrics.ttft}_count")),
        tpot_ms=_mean_ms(rate(f"{metrics.tpot}_sum"), rate(f"{metrics.tpot}_count")),
        ttft_p95_ms=p95(metrics.ttft),
        tpot_p95_ms=p95(metrics.tpot),
    )


def _kv_tokens(series: Iterable[Series], name: InfoLabel) -> int | None:
    """Of the replica that has the fewest. A replica has those of its data-parallel engines
    together; None where no engine says how many."""
    replicas: dict[str, dict[str, int]] = {}
    for each in series:
        tokens = each.labels.get(name.label, "")
        if tokens.isdigit():
            engines = replicas.setdefault(each.labels["instance"], {})
            engine = each.labels.get("engine", "")
            engines[engine] = min(int(tokens), engines.get(engine, int(tokens)))
    return min((sum(engines.values()) for engines in replicas.values()), default=None)


def _devices(client: Prometheus, uuids: frozenset[str]) -> MeasuredDevices | None:
    """None without devices, or where nothing is known of them."""
    if not uuids:
        return None
    of = f'UUID=~"{"|".join(sorted(uuids))}"'  # UUIDs have no letters that patterns have a use for
    labels = [each.labels for each in client.series(f"{DEVICES}{{{of}}}")]
    if not labels:
        return None
    used_mib = client.number(f"max({USED_MIB}{{{of}}})")
    return MeasuredDevices(
        models=tuple(sorted({each["modelName"] for each in labels})),
        drivers=tuple(sorted({each["DCGM_FI_DRIVER_VERSION"] for each in labels})),
        used_bytes=None if used_mib is None else round(used_mib * MIB),
    )


def _mean_ms(seconds_per_s: float, observations_per_s: float) -> float | None:
    return 1000 * seconds_per_s / observations_per_s if observations_per_s else None


def _per_request(tokens_per_s: float, requests_per_s: float) -> float | None:
    return tokens_per_s / requests_per_s if requests_per_s else None
