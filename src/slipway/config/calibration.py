"""The calibration file: measurements of models on machines, which override estimates.

`slipway plan --compare --calibrate` writes it; its format is schemas/calibration.schema.json.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from .base import (
    Devices,
    NotNegativeFloat,
    PositiveFloat,
    PositiveInt,
    RequestsPerS,
    Settings,
    invalid,
)
from .catalog import Catalog
from .document import Origin, read_document
from .errors import Problem, raise_if_any, suggestion
from .model import InJson
from .validation import validated

WeightScheme = Literal[
    "fp32",
    "bf16",
    "fp16",
    "fp8",
    "fp8-block",
    "int8",
    "awq",
    "gptq",
    "w4a16",
    "w4a16-asym",
    "nvfp4",
    "mxfp4",
]
KvScheme = Literal["fp32", "bf16", "fp16", "fp8"]
Name = Annotated[str, Field(min_length=1)]
Size = Annotated[int, Field(ge=1, le=2**53)]  # bytes or tokens; what JSON's numbers hold exactly


def _day(value: Any) -> Any:
    """A date or its text. Seconds since 1970, which pydantic would also accept, are refused."""
    try:
        day = datetime.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        day = None
    if type(day) is not datetime.date:
        raise invalid("must be a date such as 2026-11-21", fix="write year-month-day")
    return day


Day = Annotated[datetime.date, BeforeValidator(_day)]


class LayoutSettings(Settings):
    """How a replica was spread over devices: vLLM's parallelism sizes."""

    EXAMPLE = "{tensor: 2}"
    tensor: Devices = 1
    pipeline: Devices = 1
    expert: Devices = 1
    data: Devices = 1


class PrecisionSettings(Settings):
    """Names of slipway.planner.quantization."""

    EXAMPLE = "{weights: fp8, kv: bf16}"
    weights: WeightScheme = "bf16"
    kv: KvScheme = "bf16"


class ServingMeasurement(Settings):
    """One replica under a steady load: the load it received, and the means over its requests."""

    requests_per_s: RequestsPerS
    input_tokens: PositiveFloat
    output_tokens: PositiveFloat
    ttft_ms: PositiveFloat
    tpot_ms: PositiveFloat


class StepTimes(Settings):
    """Constants of a replica's forward pass, as in services/engine_sim/profiles.json:

    step = max(base, prefill_token x prompt tokens) + sequence x decoding sequences
           + context_token x tokens whose KV they read
    """

    base_ms: PositiveFloat
    prefill_token_ms: PositiveFloat
    sequence_ms: NotNegativeFloat
    context_token_ms: NotNegativeFloat


class CacheSettings(Settings):
    """What the size of a KV cache depends on besides model, accelerator, layout and precision: the
    engine's arguments, by their names in schemas/replica.schema.json.

    One of `gpu_memory_utilization` (on accelerators) and `kv_cache_bytes` (on processors) is given.
    """

    max_model_len: PositiveInt
    max_num_seqs: PositiveInt
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1, strict=False)] | None = None
    kv_cache_bytes: Size | None = None
    engine_args: Annotated[Mapping[str, Any], InJson] = {}

    def __hash__(self) -> int:
        """Without `engine_args`, which is a mapping."""
        return hash((self.max_model_len, self.max_num_seqs, self.gpu_memory_utilization))


class MemoryMeasurement(Settings):
    """What one replica's engine reports of its KV cache, and its driver of the devices' memory.

    The number of tokens holds for a replica with the same `settings`: it is what a share of a
    device's memory leaves, counted in sequences of `max_model_len`.
    """

    kv_tokens: Size  # of the whole replica
    device_used_bytes: Size | None = None  # of the replica's fullest device
    settings: CacheSettings


class CalibrationRow(Settings):
    """One measured replica. Without an accelerator it ran on processors."""

    model: Name  # of catalog/models.yaml
    accelerator: Name | None = None  # of catalog/accelerators.yaml
    layout: LayoutSettings = LayoutSettings()
    precision: PrecisionSettings = PrecisionSettings()
    machine: Name
    device: Name | None = None  # the accelerator, as its driver calls it
    date: Day
    versions: Annotated[Mapping[str, str], Field(min_length=1)]  # of the engine, the driver, ...
    serving: ServingMeasurement | None = None
    step_times: StepTimes | None = None
    memory: MemoryMeasurement | None = None

    @model_validator(mode="after")
    def _measured(self) -> CalibrationRow:
        if self.serving is not None and self.step_times is not None:
            raise invalid(
                "must have either `serving` or `step_times`",
                fix="keep one of them, and add a second row for the other",
            )
        if self.serving is None and self.step_times is None and self.memory is None:
            raise invalid(
                "must have either `serving` or `step_times`, or `memory`",
                fix="add what was measured, or remove the row",
            )
        return self


class CalibrationSettings(Settings):
    schema_version: Literal[1]
    rows: Annotated[tuple[CalibrationRow, ...], Field(strict=False)]


def load_calibration(path: Path, catalog: Catalog) -> CalibrationSettings:
    """Read a calibration file, YAML or JSON, and check its names against the catalog.

    Raises ConfigError with file:line, key, value and fix of every problem.
    """
    document = read_document(path, source=f"{path.parent.name}/{path.name}")
    settings = validated(CalibrationSettings, document.values, document.origin)
    raise_if_any(_unknown(settings, catalog, document.origin))
    return settings


def _unknown(settings: CalibrationSettings, catalog: Catalog, origin: Origin) -> list[Problem]:
    names = [
        ((index, key), getattr(row, key), known)
        for index, row in enumerate(settings.rows)
        for key, known in (("model", catalog.models), ("accelerator", catalog.accelerators))
    ]
    return [
        origin.problem(
            ("rows", index, key),
            f"is not in catalog/{key}s.yaml",
            value=name,
            fix=suggestion(name, known),
        )
        for (index, key), name, known in names
        if name is not None and name not in known
    ]
