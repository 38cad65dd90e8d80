"""The pinned vLLM divides a model among the members of its replica as the plan does.

It makes its settings, for each member, from the command line that the member's launcher has for its
engine: on processors, without weights, from a model's `config.json` alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipway.plan.platform import ModelPlan
from tests.components.in_vllm import answers_of_vllm
from tests.unit.planner.fleets import engine, model_file
from tests.unit.planner.group_layouts import (
    POSSIBLE,
    PROCESSORS,
    SMALL,
    on_processors,
    planned_on,
)

pytestmark = pytest.mark.binaries

# `ranks` are those that vLLM's MultiprocExecutor gives to the workers that it starts on a node.
PROGRAM = """
import json, sys
from pathlib import Path
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser
from program.group.place import place_of
from replica.document import load_document
from replica.engine import EngineMember, engine_command
from replica.programs import of_environments
from replica.settings import read_settings

folder = Path(sys.argv[1])
variables = {f"SLIPWAY_PORT_{name}": "8000" for name in ("OPENAI", "GRPC", "HTTP", "METRICS")}
variables |= {f"SLIPWAY_{name}": "/x" for name in ("SCRATCH", "ENV_TRITON", "ENV_VLLM")}
variables |= {"SLIPWAY_ADDRESS": "127.0.0.1", "SLIPWAY_RUNTIME": str(folder)}
settings, programs = read_settings(variables), of_environments(variables)
parser = make_arg_parser(FlexibleArgumentParser())

def divided(document, member):
    command = engine_command(document, settings, programs, member)
    arguments = parser.parse_args(command[command.index("--served-model-name"):])
    validate_parsed_serve_args(arguments)
    serves = member is None or member.rank == 0
    config = AsyncEngineArgs.from_cli_args(arguments).create_engine_config(
        usage_context=UsageContext.OPENAI_API_SERVER, headless=not serves
    ).parallel_config
    first = config.local_world_size * config.node_rank_within_dp
    return {
        "program": Path(command[1]).name,
        "nodes": config.nnodes,
        "node_rank": config.node_rank,
        "world_size": config.world_size,
        "local_world_size": config.local_world_size,
        "ranks": [*range(first, first + config.local_world_size)],
        "tensor": config.tensor_parallel_size,
        "pipeline": config.pipeline_parallel_size,
        "data": config.data_parallel_size,
        "data_here": config.data_parallel_size_local,
        "experts": config.enable_expert_parallel,
        "executor": str(config.distributed_executor_backend),
        "master": [config.master_addr, config.master_port],
    }

found = {}
for name, content in json.load(sys.stdin).items():
    file = folder / "replica.json"
    file.write_text(json.dumps(content))
    document = load_document(file)
    size = document.group.members if document.group else 1
    found[name] = []
    for index in range(size):
        rank = place_of(index, size).rank
        member = EngineMember(rank=rank, nodes=size, master_address="10.9.8.7", master_port=6543)
        found[name].append(divided(document, member if document.group else None))
print(json.dumps(found))
"""

# Of a mixture of experts, with as many layers and heads as the layouts need.
MODEL = """{
  "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "torch_dtype": "bfloat16",
  "hidden_size": 4096, "intermediate_size": 8192, "num_hidden_layers": 128,
  "num_attention_heads": 64, "num_key_value_heads": 8, "num_local_experts": 64,
  "num_experts_per_tok": 2, "vocab_size": 1000, "max_position_embeddings": 8192
}"""


def plans() -> dict[str, ModelPlan]:
    found = {}
    for number, (architecture, pool, parallel, _, _) in enumerate(POSSIBLE):
        settings = engine(architecture, max_model_len=2048, max_num_seqs=8)
        file = model_file(engine=settings, parallel=dict(parallel))
        found[f"{number}: {architecture}, {dict(parallel)}"] = planned_on(file, pool)
    for hosts in (1, 2, 3, 6):
        name = f"processors of {hosts} hosts"
        found[name] = planned_on(on_processors(SMALL, {"pipeline": hosts}), PROCESSORS)
    return found


def test_vllm_derives_the_plans_sizes_and_ranks_from_the_arguments_of_every_member(
    tmp_path: Path,
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(MODEL)
    models = plans()
    assert len(models) >= 20
    documents = {
        name: {**model.replica.document, "weights": "model"} for name, model in models.items()
    }
    variables = {"VLLM_CACHE_ROOT": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    derived = answers_of_vllm(PROGRAM, documents, tmp_path, variables)
    for name, model in models.items():
        assert len(derived[name]) == model.replica.nodes, name
        for rank, member in enumerate(derived[name]):
            assert {**member, **of_the_plan(model, rank)} == member, (name, rank)


def of_the_plan(model: ModelPlan, rank: int) -> dict[str, Any]:
    layout, nodes = model.layout, model.replica.nodes
    # vLLM counts each copy of a data-parallel replica's engine as a world of its own.
    world = layout.tensor * layout.pipeline
    here = world // nodes
    on = "engine" if model.replica.devices == 0 else "device_engine"
    master = {"master": ["10.9.8.7", 6543], "executor": "mp"} if nodes > 1 else {}
    return master | {
        "program": f"{on}_member.py" if rank else f"{on}_server.py",
        "nodes": nodes,
        "node_rank": rank,
        "world_size": world,
        "local_world_size": here,
        "ranks": [*range(rank * here, (rank + 1) * here)],
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "data": layout.data,
        "data_here": layout.data,
        "experts": layout.expert > 1,
    }
