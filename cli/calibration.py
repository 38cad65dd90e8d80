"""Keeps the measurements of a running environment as a calibration, which later plans use."""

from __future__ import annotations

import dataclasses
import datetime
import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from cli.errors import CliError
from slipway.config.artifacts import REQUIREMENTS
from slipway.config.calibration import (
    CacheSettings,
    CalibrationRow,
    CalibrationSettings,
    MemoryMeasurement,
    ServingMeasurement,
)
from slipway.config.files import calibration_file
from slipway.inputs import PlanInputs
from slipway.plan.platform import ModelPlan, PlatformPlan
from slipway.planner.engines.registry import engine_of
from slipway.planner.reports.comparison import Measured, MeasuredDevices

KIB = 1024


def calibrate(
    inputs: PlanInputs, plan: PlatformPlan, measured: Mapping[str, Measured], root: Path
) -> tuple[Path, tuple[CalibrationRow, ...]]:
    """Adds a row for each real engine that served requests or told its KV cache; returns the file
    and the new rows.

    Simulated engines are left out. CliError when there is nothing to keep, or when it is not what
    is planned that runs.
    """
    models = [
        model
        for model in plan.models
        if not _is_simulated(inputs, model) and _is_measured(measured[model.name])
    ]
    if not models:
        raise CliError(
            "no real engine reported its KV cache or served a request in this time window, so there"
            " is nothing to keep",
            fix="send a steady load, then run the same command with a --window inside it",
        )
    _refuse_others(models, measured, inputs.environment.name)
    rows = tuple(_row(model, measured[model.name], root) for model in models)
    kept = () if inputs.calibration is None else inputs.calibration.rows
    settings = CalibrationSettings(schema_version=1, rows=(*kept, *rows))
    path = calibration_file(root, inputs.environment.name)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    document = settings.model_dump(mode="json", exclude_none=True)
    partial.write_text(yaml.safe_dump(document, sort_keys=False))
    partial.replace(path)
    return path, rows


def _refuse_others(
    models: Iterable[ModelPlan], measured: Mapping[str, Measured], environment: str
) -> None:
    """A row says what a layout, a precision and settings do, which are those of the plan. CliError
    if replicas of another spec run, or if it is not known which do."""
    for model in models:
        jobs, planned = measured[model.name].jobs, model.stable.job_id
        if jobs != (planned,):
            raise CliError(
                f"{model.name} is planned as {planned}, but"
                f" {' and '.join(jobs) or 'an unknown job'} runs: the measurements are not of this"
                " plan",
                fix=f"slipway up -s {environment}, then send a steady load and run the same"
                " command again",
            )


def _row(model: ModelPlan, seen: Measured, root: Path) -> CalibrationRow:
    devices = seen.devices
    names = ", ".join(devices.models) if devices else ""
    return CalibrationRow.model_validate(
        {
            "model": model.architecture,
            "accelerator": model.accelerator or None,
            "layout": dataclasses.asdict(model.layout),
            "precision": dataclasses.asdict(model.precision),
            "machine": model.instance or names or _this_machine(),
            "device": names or None,
            "date": datetime.datetime.now(tz=datetime.UTC).date(),
            "versions": _engine_versions(model, root)
            | ({"driver": ", ".join(devices.drivers)} if devices else {}),
            "serving": _serving(seen) if _served(seen) else None,
            "memory": None if seen.kv_tokens is None else _memory(model, seen.kv_tokens, devices),
        }
    )


def _serving(seen: Measured) -> ServingMeasurement:
    return ServingMeasurement(
        requests_per_s=_rounded(seen.requests_per_s / max(1, seen.replicas)),
        input_tokens=_rounded(seen.input_tokens),
        output_tokens=_rounded(seen.output_tokens),
        ttft_ms=_rounded(seen.ttft_ms),
        tpot_ms=_rounded(seen.tpot_ms),
    )


def _memory(model: ModelPlan, kv_tokens: int, devices: MeasuredDevices | None) -> MemoryMeasurement:
    """With the arguments with which the replicas were started."""
    engine = model.replica.document["engine"]
    settings = {key: engine[key] for key in CacheSettings.model_fields if key in engine}
    return MemoryMeasurement(
        kv_tokens=kv_tokens,
        device_used_bytes=devices.used_bytes if devices else None,
        settings=CacheSettings.model_validate(settings),
    )


def _engine_versions(model: ModelPlan, root: Path) -> dict[str, str]:
    """The engine's pin: its package has different names for CPUs and for accelerators. An image
    must have what its replicas were planned with."""
    container = model.replica.container
    if container is not None:
        return {**model.replica.document["container"], "image": container.image}
    environment = model.replica.environments["vllm"].rpartition("-")[0]
    pins = (root / REQUIREMENTS[environment]).read_text()
    return dict(re.findall(r"^(vllm[a-z-]*)==(\S+)", pins, re.M))


def _is_simulated(inputs: PlanInputs, model: ModelPlan) -> bool:
    return engine_of(inputs.models[model.name]).simulated


def _is_measured(seen: Measured) -> bool:
    return _served(seen) or seen.kv_tokens is not None


def _served(seen: Measured) -> bool:
    times = (seen.ttft_ms, seen.tpot_ms, seen.input_tokens, seen.output_tokens)
    return seen.requests_per_s > 0 and all(times)


def _this_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / KIB**3
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.machine()}"


def _rounded(value: float | None) -> float:
    """Rounded to four digits: more would be noise in a file that people read."""
    return float(f"{value or 0.0:.4g}")
