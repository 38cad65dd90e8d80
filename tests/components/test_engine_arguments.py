"""The pinned vLLM parses the arguments of every shipped model, and of every way to split one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slipway.config.errors import ConfigError
from slipway.inputs import load_inputs
from slipway.plan.figures import Layout
from slipway.plan.platform import ModelPlan
from stacks.planning import make_plan
from tests.components.in_vllm import answers_of_vllm
from tests.unit.plan.samples import ROOT
from tests.unit.planner.fleets import CATALOG, OWNED, engine, fleet, model_file

pytestmark = pytest.mark.binaries

# Run by vLLM's interpreter beside the launcher's code: documents in, the parsed settings out.
PROGRAM = """
import json, sys
from pathlib import Path
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
from replica.document import load_document
from replica.engine import engine_command
from replica.programs import of_environments
from replica.settings import read_settings

variables = {f"SLIPWAY_PORT_{name}": "8000" for name in ("OPENAI", "GRPC", "HTTP", "METRICS")}
variables |= {f"SLIPWAY_{name}": "/x" for name in ("RUNTIME", "SCRATCH", "ENV_TRITON", "ENV_VLLM")}
variables |= {"SLIPWAY_ADDRESS": "127.0.0.1"}
parser, found = make_arg_parser(FlexibleArgumentParser()), {}
for name, document in json.load(sys.stdin).items():
    file = Path(sys.argv[1]) / "replica.json"
    file.write_text(json.dumps(document))
    command = engine_command(
        load_document(file), read_settings(variables), of_environments(variables)
    )
    words = command[command.index("--served-model-name"):]
    parsed = parser.parse_args(words)
    keys = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
            "enable_expert_parallel", "gpu_memory_utilization", "quantization", "kv_cache_dtype",
            "max_model_len", "max_num_seqs", "dtype")
    found[name] = {key: getattr(parsed, key) for key in keys}
print(json.dumps(found))
"""


PRECISIONS: Mapping[str, dict[str, str]] = {
    "as published": {},
    "fp8 weights": {"quantization": "fp8"},
    "fp8 cache": {"kv_cache_dtype": "fp8"},
    "fp8": {"quantization": "fp8", "kv_cache_dtype": "fp8"},
}
LARGEST = OWNED | {"accelerator": "B300"}
ONE = {"min": 1, "max": 1}

# No shipped model has a pipeline, copies of its data or whole experts on each device.
LAYOUTS = {
    "pipeline": Layout(tensor=2, pipeline=2),
    "data": Layout(data=2),
    "expert": Layout(tensor=2, expert=2),
}


def test_vllm_accepts_the_arguments_of_every_shipped_model(tmp_path: Path) -> None:
    models = {
        f"{environment}/{model.name}": model
        for environment in ("dev", "aws", "metal")
        for model in make_plan(load_inputs(ROOT, environment)).models
    }
    parsed = parsed_by_vllm(models, tmp_path)
    for name, model in models.items():
        document = model.replica.document["engine"]
        assert parsed[name] | of_layout(model.layout) == parsed[name]
        assert parsed[name]["max_model_len"] == document["max_model_len"]
        if model.replica.devices:
            assert parsed[name]["gpu_memory_utilization"] == document["gpu_memory_utilization"]
            assert parsed[name]["kv_cache_dtype"] == document.get("kv_cache_dtype", "auto")
            online = "fp8" if document.get("quantization") == "fp8" else None
            assert parsed[name]["quantization"] == online


def test_vllm_accepts_every_model_of_the_catalog_in_every_precision_and_split(
    tmp_path: Path,
) -> None:
    """On the accelerators with the most memory. What the planner refuses has no arguments."""
    models = {
        f"{architecture}, {precision}, tensor {tensor}": model
        for architecture in sorted(CATALOG.models)
        for precision in PRECISIONS
        for tensor in range(1, 9)
        if (model := planned(architecture, precision, tensor)) is not None
    }
    assert {name.partition(",")[0] for name in models} == set(CATALOG.models)
    parsed = parsed_by_vllm(models, tmp_path)
    for name, model in models.items():
        document, found = model.replica.document["engine"], parsed[name]
        assert found | of_layout(model.layout) == found, name
        assert found["max_model_len"] == document["max_model_len"], name
        assert found["dtype"] == document["dtype"], name
        assert found["kv_cache_dtype"] == document.get("kv_cache_dtype", "auto"), name
        online = "fp8" if document.get("quantization") == "fp8" else None
        assert found["quantization"] == online, name


def planned(architecture: str, precision: str, tensor: int) -> ModelPlan | None:
    """On one host with eight devices; None if it does not fit, or cannot be had so."""
    settings = engine(architecture, max_model_len=2048, max_num_seqs=8, **PRECISIONS[precision])
    file = model_file(engine=settings, parallel={"tensor": tensor}, slo={}, load=None)
    try:
        (model,) = make_plan(fleet(file, pools={"own": LARGEST}, replicas=ONE)).models
    except ConfigError:
        return None
    return model


def test_vllm_splits_a_model_as_the_plan_does(tmp_path: Path) -> None:
    models: dict[str, ModelPlan] = {}
    for name, layout in LAYOUTS.items():
        file = model_file(engine=engine("qwen3-30b-a3b"), parallel=dataclasses.asdict(layout))
        (models[name],) = make_plan(fleet(file)).models
    parsed = parsed_by_vllm(models, tmp_path)
    for name, layout in LAYOUTS.items():
        assert models[name].layout == layout
        assert parsed[name] | of_layout(layout) == parsed[name]


def of_layout(layout: Layout) -> dict[str, Any]:
    return {
        "tensor_parallel_size": layout.tensor,
        "pipeline_parallel_size": layout.pipeline,
        "data_parallel_size": layout.data,
        "enable_expert_parallel": layout.expert > 1,
    }


def parsed_by_vllm(models: Mapping[str, ModelPlan], folder: Path) -> dict[str, dict[str, Any]]:
    """The settings that vLLM reads from the arguments of each model."""
    documents = {name: model.replica.document for name, model in models.items()}
    return answers_of_vllm(PROGRAM, documents, folder, {})
