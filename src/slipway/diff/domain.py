"""What a change means in terms of models and machines instead of resources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slipway.diff.change import Preview
from slipway.diff.facts import Facts, ModelFacts, PoolFacts

NOTHING = "–"  # noqa: RUF001  (an en dash, as tables have it)
ROUTES = "consul:index/keys:Keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`subject` names a pool or a model; "" where the row is about the whole environment."""

    what: str
    subject: str = ""
    before: str
    after: str


def summary(preview: Preview) -> tuple[Row, ...]:
    """Rows that differ. Without a price there is no cost row."""
    before, after = preview.before, preview.after
    return (
        *_cost(before, after),
        *_accelerators(before, after),
        *_pools(before, after),
        *_models(before, after),
        *_routes(preview),
    )


def _accelerators(before: Facts, after: Facts) -> Iterator[Row]:
    """Totals over several pools only: a single pool has its own row."""
    olds, news = _by_accelerator(before), _by_accelerator(after)
    of_one = {
        pool.accelerator
        for pool in after.pools.values()
        if sum(pool.accelerator == other.accelerator for other in after.pools.values()) == 1
    }
    for name in sorted({*olds, *news} - of_one):
        row = _row("GPUs in all", name, f"{olds.get(name, 0)}", f"{news.get(name, 0)}")
        if row:
            yield row


def _by_accelerator(facts: Facts) -> dict[str, int]:
    found = dict[str, int]()
    for pool in facts.pools.values():
        if pool.accelerators:
            found[pool.accelerator] = found.get(pool.accelerator, 0) + pool.accelerators
    return found


def _pools(before: Facts, after: Facts) -> Iterator[Row]:
    for name in sorted({*before.pools, *after.pools}):
        old, new = before.pools.get(name), after.pools.get(name)
        for what, text in (("GPUs of pool", _gpus), ("pool", _shape), ("$/h of pool", _price)):
            row = _row(what, name, text(old), text(new))
            if row:
                yield row


def _gpus(pool: PoolFacts | None) -> str:
    return f"{pool.accelerators} × {pool.accelerator}" if pool and pool.accelerators else NOTHING  # noqa: RUF001


def _shape(pool: PoolFacts | None) -> str:
    if pool is None:
        return NOTHING
    count = f"{pool.nodes} to {pool.nodes_at_most}"
    count = f"{pool.nodes}" if pool.nodes == pool.nodes_at_most else count
    words = [f"{count} {'node' if count == '1' else 'nodes'}", pool.kind, pool.market]
    return ", ".join(word for word in words if word)


def _price(pool: PoolFacts | None) -> str:
    return NOTHING if pool is None or pool.usd_per_hour is None else usd(pool.usd_per_hour)


def _models(before: Facts, after: Facts) -> Iterator[Row]:
    for name in sorted({*before.models, *after.models}):
        old, new = before.models.get(name), after.models.get(name)
        if old is None or new is None:
            yield Row(
                what="model",
                subject=name,
                before=NOTHING if old is None else _place(old),
                after="removed" if new is None else _place(new),
            )
            continue
        for what, text in (
            ("model", _pool_of),
            ("replicas", _envelope),
            ("engine", _engine),
            ("SLO", _goal),
        ):
            row = _row(what, name, text(old), text(new))
            if row:
                yield row
        row = _row("SLO met", name, _promise(old), _promise(new))
        if row:
            yield row


def _place(model: ModelFacts) -> str:
    return f"{_pool_of(model)}, {_envelope(model)} replicas, {_goal(model)}"


def _pool_of(model: ModelFacts) -> str:
    return f"on pool {model.pool}"


def _envelope(model: ModelFacts) -> str:
    return f"{model.min_replicas} to {model.max_replicas}"


def _engine(model: ModelFacts) -> str:
    return f"{model.max_num_seqs} sequences of up to {model.max_model_len} tokens"


def _goal(model: ModelFacts) -> str:
    parts = [
        f"{name} p95 ≤ {goal:g} ms"
        for name, goal in (("TTFT", model.ttft_goal_ms), ("TPOT", model.tpot_goal_ms))
        if goal is not None
    ]
    return ", ".join(parts) or "no goal"


def _promise(model: ModelFacts) -> str:
    """The planner's promise: an estimate, never a measurement."""
    if model.meets_goal is None:
        return NOTHING
    parts = [
        f"{name} {value:.0f} ms"
        for name, value in (("TTFT", model.ttft_ms), ("TPOT", model.tpot_ms))
        if value is not None
    ]
    verdict = "yes" if model.meets_goal else "no"
    return f"{verdict} (estimated: {', '.join(parts)})" if parts else verdict


def _routes(preview: Preview) -> Iterator[Row]:
    """Names that clients use, and routes that now lead elsewhere."""
    before, after = _names(preview.before), _names(preview.after)
    for name in sorted(set(before) - set(after)):
        yield Row(what="name clients use", subject=name, before=before[name], after="gone")
    for name in sorted(set(after) - set(before)):
        yield Row(what="name clients use", subject=name, before=NOTHING, after=after[name])
    for change in preview.changes:
        if change.type == ROUTES and change.op in ("update", "replace"):
            services = [path for path in change.paths if path.path.endswith("service")]
            for path in services or change.paths[:1]:
                yield Row(
                    what="route",
                    subject=change.name,
                    before=path.before or NOTHING,
                    after=path.after or "changed",
                )


def _names(facts: Facts) -> dict[str, str]:
    return {name: f"model {model}" for model, each in facts.models.items() for name in each.names}


def _cost(before: Facts, after: Facts) -> Iterator[Row]:
    dated = f", prices of {after.price_date}" if after.price_date else ""
    for what, old, new in (
        ("$/h at the minimum", before.usd_per_hour, after.usd_per_hour),
        ("$/h at the maximum", before.usd_per_hour_at_most, after.usd_per_hour_at_most),
    ):
        row = _row(what, "", _usd_or_nothing(old), _usd_or_nothing(new))
        if row:
            change = f" ({new - old:+,.2f}{dated})" if old is not None and new is not None else ""
            yield Row(what=what, before=row.before, after=row.after + change)


def usd(value: float) -> str:
    return f"${value:,.2f}"


def _usd_or_nothing(value: float | None) -> str:
    return NOTHING if value is None else usd(value)


def _row(what: str, subject: str, before: str, after: str) -> Row | None:
    if before == after:
        return None
    return Row(what=what, subject=subject, before=before, after=after)
