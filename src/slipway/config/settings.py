"""Settings that every environment has, whatever its target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator

from .base import (
    PositiveInt,
    Replicas,
    ResourceName,
    Seconds,
    Settings,
    Tagged,
    UsdPerHour,
    invalid,
)
from .document import Origin
from .errors import Problem, raise_if_any, suggestion
from .gateway import GatewaySettings
from .hosts import HostSettings, ListedHost
from .security import SecuritySettings

RESERVED_POOLS = {"all", "default"}  # Nomad's built-in node pools


class NetworkSettings(Settings):
    cidr: str


class PoolSettings(Tagged):
    """Nodes of one shape."""

    kind: str


class ReplicaSettings(Settings):
    EXAMPLE = "{min: 1, max: 2}"
    min: Replicas
    max: Replicas


def _surge(value: Any) -> int | None:
    if value is None or (type(value) is int and value == 0):
        return value
    raise invalid(
        "must be 0 (a change replaces replicas one by one) or left out (a full set of new replicas"
        " starts beside the old ones)",
        fix="write `surge: 0`, or remove `surge`",
    )


class Deployment(Settings):
    """A model of models/, with the bounds of its replica count.

    `surge` is the number of replicas that a changed spec starts beside the old ones; unset, as many
    as are running.
    """

    replicas: ReplicaSettings
    surge: Annotated[int | None, BeforeValidator(_surge)] = None

    @property
    def named_pools(self) -> Sequence[tuple[str, str]]:
        """(key, pool) for each pool that it names."""
        raise NotImplementedError

    @property
    def candidates(self) -> tuple[str, ...]:
        return tuple(pool for _, pool in self.named_pools)


class BudgetSettings(Settings):
    """Spending limits: at the declared load, with every model at its maximum, and for what one
    change may add."""

    EXAMPLE = "{usd_per_hour: 50, usd_per_hour_at_most: 80}"
    usd_per_hour: UsdPerHour | None = None
    usd_per_hour_at_most: UsdPerHour | None = None
    usd_per_hour_per_change: UsdPerHour | None = None


class MonitoringSettings(Settings):
    EXAMPLE = "{scrape_interval_s: 5}"
    scrape_interval_s: Seconds = 5


class AutoscalingSettings(Settings):
    """`target_inflight_per_replica` unset: half of the engine's max_num_seqs, per model."""

    EXAMPLE = "{cooldown_s: 60}"
    evaluation_interval_s: Seconds = 5
    cooldown_s: Seconds = 60
    target_inflight_per_replica: PositiveInt | None = None


class EnvironmentSettings(Settings):
    """Settings of every environment. Each target narrows network, pools and models, and refuses
    contradictions between its own settings."""

    target: str
    network: NetworkSettings
    servers: Literal[1, 3, 5] = 1
    pools: Mapping[ResourceName, PoolSettings]
    models: Mapping[ResourceName, Deployment]
    models_dir: str = "models"
    budget: BudgetSettings = BudgetSettings()
    gateway: GatewaySettings = GatewaySettings()
    monitoring: MonitoringSettings = MonitoringSettings()
    autoscaling: AutoscalingSettings = AutoscalingSettings()
    security: SecuritySettings = SecuritySettings()

    @property
    def hosts(self) -> tuple[HostSettings, ...]:
        """Every machine that the environment names, servers first."""
        return ()

    def checked(self, origin: Origin, _inventory: Sequence[ListedHost]) -> Self:
        """The settings, with the hosts of the inventory. Raises ConfigError with every problem."""
        raise_if_any([*self.problems(origin)])
        return self

    def problems(self, origin: Origin) -> Iterator[Problem]:
        """Problems of settings that contradict each other, or name something that does not
        exist."""
        yield from _reference_problems(self, origin)
        yield from _replica_problems(self.models, origin)
        yield from _budget_problems(self.budget, origin)
        if self.gateway.address is not None:
            yield from self.shared_address_problems(self.gateway.address, origin)

    def shared_address_problems(self, shared: str, origin: Origin) -> Iterator[Problem]:
        """Why the gateway's hosts cannot share this address."""
        yield origin.problem(
            ("gateway", "address"),
            "needs a gateway pool that lists its `hosts`",
            value=shared,
            fix="remove it",
        )


def _reference_problems(settings: EnvironmentSettings, origin: Origin) -> Iterator[Problem]:
    for path, pool in _pool_references(settings):
        if pool not in settings.pools:
            yield origin.problem(
                path,
                "names a pool this environment does not have",
                value=pool,
                fix=suggestion(pool, settings.pools),
            )
    for name in settings.pools:
        if name in RESERVED_POOLS:
            yield origin.problem(
                ("pools", name), "is a name that Nomad reserves", value=name, fix="rename the pool"
            )


def _pool_references(settings: EnvironmentSettings) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, deployment in settings.models.items():
        for key, pool in deployment.named_pools:
            yield ("models", name, key), pool
    yield ("gateway", "pool"), settings.gateway.pool


def _replica_problems(models: Mapping[str, Deployment], origin: Origin) -> Iterator[Problem]:
    for name, deployment in models.items():
        replicas = deployment.replicas
        if replicas.min > replicas.max:
            yield origin.problem(
                ("models", name, "replicas"),
                "min is greater than max",
                value={"min": replicas.min, "max": replicas.max},
                fix=f"raise max to {replicas.min} or lower min to {replicas.max}",
            )


def _budget_problems(budget: BudgetSettings, origin: Origin) -> Iterator[Problem]:
    least, most = budget.usd_per_hour, budget.usd_per_hour_at_most
    if least is not None and most is not None and least > most:
        yield origin.problem(
            ("budget",),
            "usd_per_hour is greater than usd_per_hour_at_most",
            value={"usd_per_hour": least, "usd_per_hour_at_most": most},
            fix=f"raise usd_per_hour_at_most to {least:g}, or remove one of the two",
        )
