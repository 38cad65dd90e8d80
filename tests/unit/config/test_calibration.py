"""The calibration file: what it may contain, and how a wrong one is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml

from slipway.config.calibration import KvScheme, WeightScheme, load_calibration
from slipway.config.catalog import load_catalog
from slipway.config.errors import ConfigError
from slipway.plan.figures import Layout, Precision
from slipway.planner.calibration import make_calibration
from slipway.planner.quantization import KV_BYTES, SCHEMES
from tests.schemas import validate
from tests.unit.plan.samples import ROOT

CATALOG = load_catalog(ROOT)
SERVING = {
    "requests_per_s": 8.0,
    "input_tokens": 1024,
    "output_tokens": 256,
    "ttft_ms": 61,
    "tpot_ms": 12.5,
}
STEP_TIMES = {
    "base_ms": 6.3,
    "prefill_token_ms": 0.02,
    "sequence_ms": 0.008,
    "context_token_ms": 0.00004,
}
MEMORY = {
    "kv_tokens": 436_206,
    "device_used_bytes": 76 * 2**30,
    "settings": {
        "max_model_len": 8192,
        "max_num_seqs": 64,
        "gpu_memory_utilization": 0.9,
        "engine_args": {"max_num_batched_tokens": 8192},
    },
}


def _row(**changes: Any) -> dict[str, Any]:
    row = {
        "model": "llama-3.1-8b",
        "accelerator": "H100-80",
        "layout": {"tensor": 2},
        "precision": {"weights": "fp8", "kv": "fp8"},
        "machine": "p5.48xlarge",
        "date": "2026-11-21",
        "versions": {"vllm": "0.14.0"},
        "serving": SERVING,
    } | changes
    return {key: value for key, value in row.items() if value is not None}


def _write(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "calibration.yaml"
    path.write_text(yaml.safe_dump({"schema_version": 1, "rows": list(rows)}), "utf-8")
    return path


def _problem(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_calibration(path, CATALOG)
    return str(caught.value)


@pytest.mark.parametrize(
    "row",
    [
        _row(),
        _row(serving=None, step_times=STEP_TIMES),
        _row(accelerator=None, layout=None, precision=None),
        _row(memory=MEMORY, device="NVIDIA H100 80GB HBM3"),
        _row(serving=None, memory=MEMORY),
        _row(serving=None, step_times=STEP_TIMES, memory=MEMORY),
    ],
    ids=["serving", "step times", "processors", "memory too", "memory alone", "memory and steps"],
)
def test_a_valid_row_passes_the_reader_and_the_schema(tmp_path: Path, row: Any) -> None:
    validate({"schema_version": 1, "rows": [row]}, "calibration")
    assert len(load_calibration(_write(tmp_path, row), CATALOG).rows) == 1


def test_json_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"schema_version": 1, "rows": [_row()]}, indent=2), "utf-8")
    assert load_calibration(path, CATALOG).rows[0].date.isoformat() == "2026-11-21"


@pytest.mark.parametrize(
    ("row", "key", "message"),
    [
        (_row(step_times=STEP_TIMES), "rows.0", "either `serving` or `step_times`"),
        (_row(serving=None), "rows.0", "either `serving` or `step_times`, or `memory`"),
        (_row(memory=MEMORY | {"kv_tokens": 0}), "rows.0.memory.kv_tokens", "at least 1"),
        (_row(memory=MEMORY | {"settings": {}}), "memory.settings.max_model_len", "is required"),
        (_row(memory=MEMORY | {"tokens": 1}), "rows.0.memory.tokens", "unknown key"),
        (_row(serving=SERVING | {"ttft_ms": -1}), "rows.0.serving.ttft_ms", "more than 0"),
        (_row(versions={}), "rows.0.versions", "must not be empty"),
        (_row(date="yesterday"), "rows.0.date", "a date such as 2026-11-21 (found"),
        (_row(date=20261121), "rows.0.date", "a date such as 2026-11-21 (found"),
        (_row(versions={"vllm": 0.9}), "rows.0.versions.vllm", "in quotes: YAML reads it as a"),
        (_row(serving=SERVING | {"ttft": 9}), "rows.0.serving.ttft", 'did you mean "ttft_ms"?'),
        (_row(colour="red"), "rows.0.colour", "unknown key"),
        (_row(precision={"weights": "fp9"}), "rows.0.precision.weights", "must be 'fp32'"),
    ],
)
def test_a_wrong_row_is_refused_by_the_reader_and_the_schema(
    tmp_path: Path, row: Any, key: str, message: str
) -> None:
    problem = _problem(_write(tmp_path, row))
    assert "calibration.yaml:" in problem
    assert f"{key}: " in problem
    assert message in problem
    with pytest.raises(jsonschema.ValidationError):
        validate({"schema_version": 1, "rows": [row]}, "calibration")


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (_row(serving=SERVING | {"requests_per_s": math.inf}), "serving.requests_per_s"),
        (_row(serving=SERVING | {"tpot_ms": math.inf}), "serving.tpot_ms"),
        (_row(serving=None, step_times=STEP_TIMES | {"base_ms": 1e300}), "step_times.base_ms"),
        (_row(serving=None, step_times=STEP_TIMES | {"sequence_ms": math.nan}), "sequence_ms"),
        (_row(layout={"tensor": 4096}), "layout.tensor"),
        (_row(date="2026-13-45"), "date"),
    ],
    ids=range(6),
)
def test_impossible_measurements_are_refused(tmp_path: Path, row: Any, key: str) -> None:
    assert f"{key}: must be a" in _problem(_write(tmp_path, row))


@pytest.mark.parametrize(
    ("changes", "key", "fix"),
    [
        ({"model": "llama-3.1-8B"}, "rows.0.model", 'did you mean "llama-3.1-8b"?'),
        ({"accelerator": "H100-8"}, "rows.0.accelerator", 'did you mean "H100-80"'),
    ],
)
def test_a_name_that_the_catalog_lacks_is_named(
    tmp_path: Path, changes: dict[str, Any], key: str, fix: str
) -> None:
    problem = _problem(_write(tmp_path, _row(**changes)))
    assert f"{key}: is not in catalog/" in problem
    assert fix in problem


def test_every_scheme_of_the_planner_can_be_calibrated() -> None:
    assert set(get_args(WeightScheme)) == set(SCHEMES)
    assert set(get_args(KvScheme)) == set(KV_BYTES)


def test_of_several_rows_the_newest_counts(tmp_path: Path) -> None:
    rows = [
        _row(date="2026-11-20", machine="new"),
        _row(date="2026-10-01", machine="old"),
        _row(date="2026-11-20", machine="newest"),
        _row(date="2026-11-21", machine="another", layout={"tensor": 4}),
    ]
    calibration = make_calibration(load_calibration(_write(tmp_path, *rows), CATALOG), CATALOG)
    found = calibration.find(
        CATALOG.models["llama-3.1-8b"],
        CATALOG.accelerators["H100-80"],
        layout=Layout(tensor=2),
        precision=Precision(weights="fp8", kv="fp8"),
    )
    assert found is not None
    assert "on newest: llama-3.1-8b on H100-80 (vllm 0.14.0)" in found.source


def test_nothing_is_found_for_what_was_not_measured(tmp_path: Path) -> None:
    calibration = make_calibration(load_calibration(_write(tmp_path, _row()), CATALOG), CATALOG)
    for model, accelerator, precision in (
        ("llama-3.1-8b", "H100-80", Precision()),
        ("llama-3.1-8b", "H200", Precision(weights="fp8", kv="fp8")),
        ("qwen3-8b", "H100-80", Precision(weights="fp8", kv="fp8")),
    ):
        assert not calibration.find(
            CATALOG.models[model],
            CATALOG.accelerators[accelerator],
            layout=Layout(tensor=2),
            precision=precision,
        )


def test_times_and_caches_are_looked_up_apart(tmp_path: Path) -> None:
    """A newer row without times does not hide older times, nor the other way round."""
    rows = [
        _row(date="2026-11-20", machine="timed"),
        _row(date="2026-11-21", machine="counted", serving=None, memory=MEMORY),
        _row(date="2026-11-22", machine="timed again"),
    ]
    calibration = make_calibration(load_calibration(_write(tmp_path, *rows), CATALOG), CATALOG)
    (cache,) = calibration.caches
    times = calibration.find(
        cache.of.architecture,
        cache.of.accelerator,
        layout=cache.of.layout,
        precision=cache.of.precision,
    )
    assert times is not None
    assert "on timed again:" in times.source
    assert calibration.find_cache(cache.of, cache.settings) == cache
    assert "on counted:" in cache.source
