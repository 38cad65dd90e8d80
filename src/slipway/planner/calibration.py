"""Measured rows, looked up by model, accelerator, layout and precision; a row overrides the
estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slipway.config.calibration import (
    CacheSettings,
    CalibrationRow,
    CalibrationSettings,
    ServingMeasurement,
    StepTimes,
)
from slipway.config.catalog import Accelerator, Architecture, Catalog
from slipway.inputs import PlanInputs
from slipway.plan.figures import DeviceMemory, Layout, Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a row is about. `accelerator` is None where it ran on processors."""

    layout: Layout
    precision: Precision
    architecture: Architecture
    accelerator: Accelerator | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredReplica:
    """The times of one row, which `source` names."""

    of: Subject
    measurement: ServingMeasurement | StepTimes
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCache:
    """The KV cache of one row, which `source` names."""

    of: Subject
    settings: CacheSettings
    kv_tokens: int  # of the whole replica, in sequences of full length
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Newest first; of two rows with the same date, the one later in the file."""

    replicas: tuple[MeasuredReplica, ...] = ()
    caches: tuple[MeasuredCache, ...] = ()

    def find(
        self,
        architecture: Architecture,
        accelerator: Accelerator | None,
        *,
        layout: Layout,
        precision: Precision,
    ) -> MeasuredReplica | None:
        """The newest row with the times of such a replica."""
        asked = Subject(
            layout=layout, precision=precision, architecture=architecture, accelerator=accelerator
        )
        return next((each for each in self.replicas if each.of == asked), None)

    def find_cache(self, asked: Subject, settings: CacheSettings) -> MeasuredCache | None:
        """The newest row with the KV cache of such a replica with these settings: a cache that was
        measured with another length or utilization has another size."""
        return next(
            (each for each in self.caches if each.of == asked and each.settings == settings), None
        )


def with_measured_cache(memory: DeviceMemory, measured: MeasuredCache) -> DeviceMemory:
    """The memory of a replica whose engine reported its KV tokens.

    The engine counts them in sequences of full length (get_kv_cache_capacity in
    vllm/v1/core/kv_cache_utils.py), so its cache has the bytes that so many sequences hold. It
    started, so one of them has room.
    """
    length, groups = measured.settings.max_model_len, measured.of.layout.data
    sequence_bytes, first_bytes = memory.sequence.held_bytes(length), memory.longest_sequence_bytes
    held_bytes = measured.kv_tokens * sequence_bytes // (groups * length)
    cache_bytes = max(held_bytes, first_bytes)
    return replace(
        memory,
        kv_cache_bytes=cache_bytes,
        kv_tokens=measured.kv_tokens,
        max_sequences_at_full_length=groups * (1 + (cache_bytes - first_bytes) // sequence_bytes),
        kv_source=measured.source,
    )


def make_calibration(settings: CalibrationSettings, catalog: Catalog) -> Calibration:
    """`settings` come from `load_calibration`, so the catalog knows their names."""
    replicas: list[MeasuredReplica] = []
    caches: list[MeasuredCache] = []
    oldest_first = sorted(settings.rows, key=lambda row: row.date)
    for row in reversed(oldest_first):
        subject, source, times = _subject(row, catalog), _source(row), row.serving or row.step_times
        if times is not None:
            replicas.append(MeasuredReplica(of=subject, measurement=times, source=source))
        if row.memory is not None:
            cache = MeasuredCache(
                of=subject,
                settings=row.memory.settings,
                kv_tokens=row.memory.kv_tokens,
                source=source,
            )
            caches.append(cache)
    return Calibration(replicas=tuple(replicas), caches=tuple(caches))


def _subject(row: CalibrationRow, catalog: Catalog) -> Subject:
    return Subject(
        layout=Layout(**row.layout.model_dump()),
        precision=Precision(**row.precision.model_dump()),
        architecture=catalog.models[row.model],
        accelerator=None if row.accelerator is None else catalog.accelerators[row.accelerator],
    )


def _source(row: CalibrationRow) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(row.versions.items()))
    where = f"{row.model} on {row.accelerator or 'processors'}"
    return f"measured {row.date.isoformat()} on {row.machine}: {where} ({versions})"


def calibration_of(inputs: PlanInputs) -> Calibration:
    """The environment's measurements; empty before the first calibration."""
    if inputs.calibration is None:
        return Calibration()
    return make_calibration(inputs.calibration, inputs.catalog)
