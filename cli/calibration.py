"""Keeps the measurements of a running environment as a calibration, which later plans use."""

from __future__ import annotations

import dataclasses
import datetime
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from cli.errors import CliError
from slipway.config.artifacts import REQUIREMENTS
from slipway.config.calibration import CalibrationRow, CalibrationSettings, ServingMeasurement
from slipway.config.files import calibration_file
from slipway.inputs import PlanInputs
from slipway.plan.platform import ModelPlan, PlatformPlan
from slipway.planner.engines.registry import engine_of
from slipway.planner.reports.comparison import Measured

KIB = 1024


def calibrate(
    inputs: PlanInputs, plan: PlatformPlan, measured: Mapping[str, Measured], root: Path
) -> tuple[Path, tuple[CalibrationRow, ...]]:
    """Adds a row for each real engine that served requests; returns the file and the new rows.

    Simulated engines are left out. CliError when there is nothing to keep.
    """
    versions = _engine_versions(root)
    rows = tuple(
        _row(model, measured[model.name], versions)
        for model in plan.models
        if not _is_simulated(inputs, model) and _served(measured[model.name])
    )
    if not rows:
        raise CliError(
            "no real engine served a request in this time window, so there is nothing to keep",
            fix="send a steady load, then run the same command with a --window inside it",
        )
    kept = () if inputs.calibration is None else inputs.calibration.rows
    settings = CalibrationSettings(schema_version=1, rows=(*kept, *rows))
    path = calibration_file(root, inputs.environment.name)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    document = settings.model_dump(mode="json", exclude_none=True)
    partial.write_text(yaml.safe_dump(document, sort_keys=False))
    partial.replace(path)
    return path, rows


def _row(model: ModelPlan, seen: Measured, versions: Mapping[str, str]) -> CalibrationRow:
    replicas = max(1, seen.replicas)
    return CalibrationRow.model_validate(
        {
            "model": model.architecture,
            "accelerator": model.accelerator or None,
            "layout": dataclasses.asdict(model.layout),
            "precision": dataclasses.asdict(model.precision),
            "machine": model.instance or _this_machine(),
            "date": datetime.datetime.now(tz=datetime.UTC).date(),
            "versions": versions,
            "serving": ServingMeasurement(
                requests_per_s=_rounded(seen.requests_per_s / replicas),
                input_tokens=_rounded(seen.input_tokens),
                output_tokens=_rounded(seen.output_tokens),
                ttft_ms=_rounded(seen.ttft_ms),
                tpot_ms=_rounded(seen.tpot_ms),
            ),
        }
    )


def _engine_versions(root: Path) -> dict[str, str]:
    """The engine's pin: its package has different names for CPUs and for accelerators."""
    pins = re.findall(r"^(vllm[a-z-]*)==(\S+)", (root / REQUIREMENTS["vllm"]).read_text(), re.M)
    return dict(pins)


def _is_simulated(inputs: PlanInputs, model: ModelPlan) -> bool:
    return engine_of(inputs.models[model.name]).simulated


def _served(seen: Measured) -> bool:
    times = (seen.ttft_ms, seen.tpot_ms, seen.input_tokens, seen.output_tokens)
    return seen.requests_per_s > 0 and all(times)


def _this_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / KIB**3
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.machine()}"


def _rounded(value: float | None) -> float:
    """Rounded to four digits: more would be noise in a file that people read."""
    return float(f"{value or 0.0:.4g}")
