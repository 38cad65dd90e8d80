"""What the planner decides: the plan without the names of models' jobs.

A job's ID is a digest of the rendered job, so jobs, their services and the routes to them are added
once, by whoever renders them (stacks/planning.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from .platform import (
    JsonObject,
    ModelPlan,
    ModelWithoutJobs,
    PlatformPlan,
    PlatformWithoutModels,
    Release,
    ScalingSpec,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteLimits:
    """What the gateway allows a model's requests."""

    max_concurrent_requests_per_replica: int
    stream_idle_timeout_s: int
    max_stream_duration_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRouting:
    """How the gateway chooses the replica of a request; without a key for `least_request`."""

    policy: str
    key: str | None = None
    session_header: str | None = None
    bound_percent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDraft(ModelWithoutJobs):
    scaling: ScalingSpec
    limits: RouteLimits
    routing: RequestRouting

    def with_jobs(self, releases: Iterable[Release], route: JsonObject) -> ModelPlan:
        shared = _fields_of(ModelWithoutJobs, self)
        return ModelPlan(**shared, releases=tuple(releases), route=route)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformDraft(PlatformWithoutModels):
    models: tuple[ModelDraft, ...]

    def with_models(self, models: Iterable[ModelPlan]) -> PlatformPlan:
        return PlatformPlan(**_fields_of(PlatformWithoutModels, self), models=tuple(models))


AnyModel = ModelDraft | ModelPlan
AnyPlan = PlatformDraft | PlatformPlan


def _fields_of(
    kind: type[ModelWithoutJobs | PlatformWithoutModels], draft: object
) -> dict[str, Any]:
    return {field.name: getattr(draft, field.name) for field in fields(kind)}
