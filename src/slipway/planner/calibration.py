"""Measured rows, looked up by model, accelerator, layout and precision; a row overrides the
estimate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slipway.config.calibration import (
    CalibrationRow,
    CalibrationSettings,
    ServingMeasurement,
    StepTimes,
)
from slipway.config.catalog import Accelerator, Architecture, Catalog
from slipway.inputs import PlanInputs
from slipway.plan.figures import Layout, Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredReplica:
    """One row. `accelerator` is None where it ran on processors; `source` names the row."""

    architecture: Architecture
    accelerator: Accelerator | None
    layout: Layout
    precision: Precision
    measurement: ServingMeasurement | StepTimes
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    replicas: tuple[MeasuredReplica, ...] = ()  # newest first

    def find(
        self,
        architecture: Architecture,
        accelerator: Accelerator | None,
        *,
        layout: Layout,
        precision: Precision,
    ) -> MeasuredReplica | None:
        """The newest matching row; of two with the same date, the one later in the file."""
        for replica in self.replicas:
            if (
                replica.layout == layout
                and replica.precision == precision
                and replica.architecture == architecture
                and replica.accelerator == accelerator
            ):
                return replica
        return None


def make_calibration(settings: CalibrationSettings, catalog: Catalog) -> Calibration:
    """`settings` come from `load_calibration`, so the catalog knows their names."""
    newest_last = sorted(settings.rows, key=lambda row: row.date)
    return Calibration(replicas=tuple(_replicas(reversed(newest_last), catalog)))


def _replicas(rows: Iterable[CalibrationRow], catalog: Catalog) -> Iterator[MeasuredReplica]:
    for row in rows:
        measurement = row.serving or row.step_times
        if measurement is None:  # CalibrationRow refuses this
            continue
        yield MeasuredReplica(
            architecture=catalog.models[row.model],
            accelerator=None if row.accelerator is None else catalog.accelerators[row.accelerator],
            layout=Layout(**row.layout.model_dump()),
            precision=Precision(**row.precision.model_dump()),
            measurement=measurement,
            source=_source(row),
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
