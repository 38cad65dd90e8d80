"""What a plan promised beside what a running environment did, and keeping that as a calibration."""

from __future__ import annotations

import dataclasses
import datetime
import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import httpx
import yaml
from rich.console import Group, RenderableType
from rich.text import Text

from slipway.cli.applied import Applied
from slipway.cli.errors import CliError
from slipway.cli.measured import measure
from slipway.cli.tables import plain_table
from slipway.config.artifacts import REQUIREMENTS
from slipway.config.calibration import CalibrationRow, CalibrationSettings, ServingMeasurement
from slipway.config.inputs import PlanInputs, calibration_file
from slipway.plan.capacity import CapacityPlan, ModelCapacity
from slipway.planner.reports.comparison import Comparison, Measured

SCHEMA_VERSION = 1
KIB = 1024


def ask(applied: Applied, plan: CapacityPlan, *, window_s: int) -> dict[str, Measured]:
    """What each model of the plan did. CliError when the environment does not answer."""
    try:
        names = [model.model for model in plan.models]
        return measure(applied.prometheus, names, window_s=window_s)
    except httpx.HTTPError as error:
        raise CliError(
            f"Prometheus of {applied.environment} does not answer: {error}",
            fix=f"slipway start -s {applied.environment}, then run the same command again",
        ) from None


def comparison_table(rows: Iterable[Comparison], *, window_s: int) -> RenderableType:
    """Prints nothing itself."""
    table = plain_table(f"promised and measured over the last {window_s} s")
    for heading in ("model", "quantity"):
        table.add_column(heading, overflow="fold")
    for heading in ("promised", "measured", "ratio", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    last = ""
    for row in rows:
        table.add_row(
            "" if row.model == last else row.model,
            row.quantity,
            _number(row.promised, row.unit),
            _number(row.measured, row.unit),
            "-" if row.ratio is None else f"{row.ratio:.2f}",
            {None: "", True: "within", False: "outside"}[row.within],
        )
        last = row.model
    legend = "TTFT and TPOT are means; - where nothing was promised, or nothing was served."
    return Group(table, Text(legend, style="dim"))


def comparison_document(
    rows: Iterable[Comparison], measured: Mapping[str, Measured]
) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "rows": [
            {**dataclasses.asdict(row), "ratio": row.ratio, "within": row.within} for row in rows
        ],
        "measured": {name: dataclasses.asdict(seen) for name, seen in measured.items()},
    }


def calibrate(
    inputs: PlanInputs, plan: CapacityPlan, measured: Mapping[str, Measured], root: Path
) -> tuple[Path, tuple[CalibrationRow, ...]]:
    """Add a row for each real engine that served something; returns the file and the new rows.

    A simulated engine measures nothing. CliError when there is nothing to keep.
    """
    versions = _engine_versions(root)
    rows = tuple(
        _row(model, measured[model.model], versions)
        for model in plan.models
        if not _is_simulated(inputs, model) and _served(measured[model.model])
    )
    if not rows:
        raise CliError(
            "no real engine served a request in this time: there is nothing to keep",
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


def _row(model: ModelCapacity, seen: Measured, versions: Mapping[str, str]) -> CalibrationRow:
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
    """The engine's pin: its package has another name for processors than for accelerators."""
    pins = re.findall(r"^(vllm[a-z-]*)==(\S+)", (root / REQUIREMENTS["vllm"]).read_text(), re.M)
    return dict(pins)


def _is_simulated(inputs: PlanInputs, model: ModelCapacity) -> bool:
    return inputs.models[model.model].settings.engine.kind == "sim"


def _served(seen: Measured) -> bool:
    times = (seen.ttft_ms, seen.tpot_ms, seen.input_tokens, seen.output_tokens)
    return seen.requests_per_s > 0 and all(times)


def _this_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / KIB**3
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.machine()}"


def _rounded(value: float | None) -> float:
    """Four digits: more would only be noise in a file that people read."""
    return float(f"{value or 0.0:.4g}")


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:,.4g} {unit}".rstrip()
