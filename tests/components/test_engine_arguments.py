"""The pinned vLLM parses the arguments with which every shipped model starts it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from slipway.config.artifacts import REQUIREMENTS
from slipway.config.inputs import load_inputs
from slipway.planner.platform import make_plan
from tests.unit.plan.samples import ROOT
from toolchain.prepare import environment_folder
from toolchain.settings import default_cache

pytestmark = [pytest.mark.binaries, pytest.mark.timeout(180)]

# Run by vLLM's interpreter beside the launcher's code: documents in, the parsed settings out.
PROGRAM = """
import json, sys
from pathlib import Path
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
from replica.document import load_document
from replica.engine import engine_command
from replica.settings import read_settings

variables = {f"SLIPWAY_PORT_{name}": "8000" for name in ("OPENAI", "GRPC", "HTTP", "METRICS")}
variables |= {f"SLIPWAY_{name}": "/x" for name in ("RUNTIME", "SCRATCH", "ENV_TRITON", "ENV_VLLM")}
variables |= {"SLIPWAY_ADDRESS": "127.0.0.1"}
parser, found = make_arg_parser(FlexibleArgumentParser()), {}
for name, (document, devices) in json.load(sys.stdin).items():
    file = Path(sys.argv[1]) / "replica.json"
    file.write_text(json.dumps(document))
    visible = {"NVIDIA_VISIBLE_DEVICES": devices}
    command = engine_command(load_document(file), read_settings(variables | visible))
    words = command[command.index("--served-model-name"):]
    parsed = parser.parse_args(words)
    keys = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
            "enable_expert_parallel", "gpu_memory_utilization", "quantization", "kv_cache_dtype",
            "max_model_len", "max_num_seqs", "dtype")
    found[name] = {key: getattr(parsed, key) for key in keys}
print(json.dumps(found))
"""


def test_vllm_accepts_the_arguments_of_every_shipped_model(tmp_path: Path) -> None:
    models = {
        f"{environment}/{model.name}": model
        for environment in ("dev", "aws", "metal")
        for model in make_plan(load_inputs(ROOT, environment)).models
    }
    documents = {
        name: (model.replica.document, "GPU-1" if model.replica.devices else "void")
        for name, model in models.items()
    }
    vllm = environment_folder("vllm", ROOT / REQUIREMENTS["vllm"], default_cache())
    done = subprocess.run(
        [str(vllm / "bin/python"), "-c", PROGRAM, str(tmp_path)],
        input=json.dumps(documents),
        cwd=ROOT / "services/triton_vllm",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    parsed = json.loads(done.stdout.splitlines()[-1])
    assert parsed.keys() == models.keys()
    for name, model in models.items():
        layout, engine = model.layout, model.replica.document["engine"]
        assert parsed[name]["tensor_parallel_size"] == layout.tensor
        assert parsed[name]["pipeline_parallel_size"] == layout.pipeline
        assert parsed[name]["max_model_len"] == engine["max_model_len"]
        if model.replica.devices:
            assert parsed[name]["gpu_memory_utilization"] == engine["gpu_memory_utilization"]
            assert parsed[name]["kv_cache_dtype"] == engine.get("kv_cache_dtype", "auto")
            online = "fp8" if engine.get("quantization") == "fp8" else None
            assert parsed[name]["quantization"] == online
