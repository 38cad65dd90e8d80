"""`engine_args` of vLLM: those that the plan reads, and those that it refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from slipway.config.errors import Problem
from slipway.config.model import Engine, Model, VllmEngine, argument_name
from slipway.planner.engines.adapter import LoraAdapters

# vLLM arguments that are set by a key of the model file: given in `engine_args` as well, they would
# make the engine differ from the plan.
PLANNED_ARGUMENTS = {
    "dtype": "engine.dtype",
    "quantization": "engine.quantization",
    "kv_cache_dtype": "engine.kv_cache_dtype",
    "gpu_memory_utilization": "engine.gpu_memory_utilization",
    "device_memory_utilization": "engine.gpu_memory_utilization",
    "kv_cache_memory_bytes": "engine.kv_cache",
    "max_model_len": "engine.max_model_len",
    "max_num_seqs": "engine.max_num_seqs",
    "tensor_parallel_size": "parallel.tensor",
    "pipeline_parallel_size": "parallel.pipeline",
    "data_parallel_size": "parallel.data",
    "enable_expert_parallel": "parallel.expert",
}
# Arguments that Slipway sets itself (services/triton_vllm refuses them at the start).
OWN_ARGUMENTS = ("host", "port", "uds", "model", "served_model_name", "disable_log_stats")
# The other arguments of vLLM 0.32 that divide a model or place it on nodes and devices, and
# `config`, which reads any argument from a file.
UNPLANNED_ARGUMENTS = (
    "config",
    "data_parallel_address",
    "data_parallel_backend",
    "data_parallel_external_lb",
    "data_parallel_hybrid_lb",
    "data_parallel_multi_port_external_lb",
    "data_parallel_rank",
    "data_parallel_rpc_port",
    "data_parallel_size_local",
    "data_parallel_start_rank",
    "decode_context_parallel_size",
    "device_ids",
    "elastic_ep_max_dp_size",
    "enable_elastic_ep",
    "headless",
    "master_addr",
    "master_port",
    "nnodes",
    "node_rank",
    "prefill_context_parallel_size",
)
# Arguments that the plan counts the memory of.
COUNTED_ARGUMENTS = ("max_num_batched_tokens", "enable_lora", "max_loras", "max_lora_rank")

KNOWN_ARGUMENTS = (
    *PLANNED_ARGUMENTS,
    *OWN_ARGUMENTS,
    *UNPLANNED_ARGUMENTS,
    *COUNTED_ARGUMENTS,
)
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vllm/config/lora.py
DEFAULT_LORA_RANK = 16


def argument_problems(model: Model, *, inapplicable: Collection[str]) -> Iterator[Problem]:
    """The arguments that the plan refuses. `inapplicable` are the keys of the model file that the
    kind of pool refuses."""
    engine = model.settings.engine
    for argument, value in engine.engine_args.items():
        refusal = _refusal(argument_name(argument).removeprefix("no_"), inapplicable)
        refusal = refusal or _wrong_value(argument_name(argument), value)
        if refusal is not None:
            message, fix = refusal
            yield model.origin.problem(
                ("engine", "engine_args", argument), message, value=value, fix=fix
            )


def batched_tokens(engine: Engine) -> int | None:
    """The stated max_num_batched_tokens, also of a simulated engine; None where vLLM chooses it."""
    stated: int | None = _by_name(engine).get("max_num_batched_tokens")
    return stated


def prompts_are_chunked(engine: VllmEngine) -> bool:
    """Whether a long prompt is computed in several steps, as vLLM does by default. Otherwise a step
    has room for a prompt of full length (vllm/engine/arg_utils.py)."""
    stated = _by_name(engine)
    return stated.get("enable_chunked_prefill") is not False and not stated.get(
        "no_enable_chunked_prefill"
    )


def lora_adapters(engine: VllmEngine) -> LoraAdapters | None:
    """The LoRA adapters that vLLM reserves memory for, of arguments without problems; None unless
    `enable_lora` is on."""
    arguments = _by_name(engine)
    if not arguments.get("enable_lora"):
        return None
    return LoraAdapters(
        count=arguments.get("max_loras", 1),
        rank=arguments.get("max_lora_rank", DEFAULT_LORA_RANK),
    )


def _by_name(engine: Engine) -> dict[str, Any]:
    return {argument_name(key): value for key, value in engine.engine_args.items()}


def _refusal(name: str, inapplicable: Collection[str]) -> tuple[str, str] | None:
    """(message, fix) of a refused argument."""
    if name in OWN_ARGUMENTS:
        return "is set by Slipway", "remove it"
    if name in UNPLANNED_ARGUMENTS:
        return "could run the model in another way than planned", "remove it"
    if name in PLANNED_ARGUMENTS:
        key = PLANNED_ARGUMENTS[name]
        if key in inapplicable:
            return "does not apply to this kind of pool", "remove it"
        return f"is set by `{key}`", f"set `{key}` instead"
    return None if name in COUNTED_ARGUMENTS else _abbreviation(name, inapplicable)


def _abbreviation(name: str, inapplicable: Collection[str]) -> tuple[str, str] | None:
    """vLLM's parser takes a prefix of an argument for the argument."""
    for known in KNOWN_ARGUMENTS:
        if known.startswith(name):
            _, fix = _refusal(known, inapplicable) or ("", f"write {known}")
            return f"is read by vLLM as an abbreviation of {known}", fix
    return None


def _wrong_value(name: str, value: object) -> tuple[str, str] | None:
    """(message, fix) where the plan cannot count the memory of an argument."""
    if name == "enable_lora" and not isinstance(value, bool):
        return "must be true or false", "use true, or leave it out"
    if name == "max_loras" and (type(value) is not int or value < 1):
        return "must be a whole number from 1", "use the number of adapters in one step"
    if name == "max_lora_rank" and (type(value) is not int or value not in LORA_RANKS):
        return (
            "is not a rank that vLLM supports",
            f"use one of {', '.join(map(str, LORA_RANKS))}",
        )
    return None
