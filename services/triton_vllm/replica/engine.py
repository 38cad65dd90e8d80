"""How vLLM's OpenAI server is started: its command line and its environment. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replica.document import ReplicaDocument
from replica.errors import InputError
from replica.settings import Settings

# Decided by Slipway; a different value in `engine_args` would break the contract with the
# gateway or contradict the memory that the planner reserved.
RESERVED_FLAGS = frozenset({"host", "port", "uds", "model", "served-model-name"})

# Engine core and workers start imported there. Not with an accelerator: never tried on one.
CPU_SERVER = Path(__file__).resolve().parent.parent / "engine_server.py"
SERVER = ("-m", "vllm.entrypoints.openai.api_server")

# The engine core runs the model itself, vLLM's choice with one GPU. On a CPU vLLM refuses it by its
# name "uni", so that it can bind a worker's threads (off below), and the two processes then poll
# their shared memory as long as they work: streams stood for up to 4 s on two cores (measured).
IN_ENGINE_CORE = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
# What divides a model among several workers.
SPLITS = ("tensor-parallel-size", "pipeline-parallel-size", "prefill-context-parallel-size")

# `n` of one request at either door. vLLM's own limit of 16384 lets one request keep an engine to
# itself for minutes; the Triton model has the same (backend/generation.py).
MOST_CHOICES = 128


def engine_command(document: ReplicaDocument, settings: Settings) -> list[str]:
    """The command of the API server. Raises InputError for a reserved engine argument."""
    command = [
        str(settings.env_vllm / "bin/python"),
        *(SERVER if settings.accelerator else (str(CPU_SERVER),)),
        "--served-model-name",
        *document.names,
    ]
    for name, value in sorted(_flags(document, settings).items()):
        command += _flag(name, value)
    return command


def engine_environment(
    document: ReplicaDocument, settings: Settings, inherited: Mapping[str, str], temporary: Path
) -> dict[str, str]:
    """The environment of the API server and of every process below it.

    `temporary` must be short: vLLM makes sockets below it, and a socket's path ends at 107
    characters.
    """
    environment = {
        **inherited,
        "TMPDIR": str(temporary),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        # What it finds out about a model's class; else that goes to the home folder.
        "VLLM_CACHE_ROOT": str(settings.runtime / "vllm"),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
        "VLLM_LOGGING_COLOR": "0",
        "VLLM_MAX_N_SEQUENCES": str(MOST_CHOICES),
        # Seconds that an idle connection stays: longer than its clients, Envoy (1 h) and our
        # backend, keep one. Who also sends must be the one who closes; a request that meets the
        # other side's close is lost.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "3700",
        # Engine and workers rename themselves, which by default overwrites the memory behind
        # /proc/<pid>/environ: the marker they are found by would be lost.
        "SPT_NOENV": "1",
    }
    if not settings.accelerator:
        environment |= {
            # vLLM's own binding puts the workers of every replica on core 0.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(document.engine.threads),
            # Threads that spin while they wait take the cores from other replicas: four streams
            # of two replicas on two cores had 4.7 tokens/s together, and 22.8 so.
            "OMP_WAIT_POLICY": "passive",
        }
        # Whole GiB only, and it would win over the flag with the exact size.
        environment.pop("VLLM_CPU_KVCACHE_SPACE", None)
    if _flags(document, settings).get("enforce-eager") is True:
        # Eager leaves two small functions of the sampler to torch.compile: the first request with
        # logprobs stopped the engine for 24 s (measured), and every node needed a C++ compiler.
        environment["TORCHDYNAMO_DISABLE"] = "1"
    return environment


def _flags(document: ReplicaDocument, settings: Settings) -> dict[str, Any]:
    engine = document.engine
    flags: dict[str, Any] = {
        "model": str(settings.runtime / document.weights),
        "host": settings.address,
        "port": settings.port_openai,
        "dtype": engine.dtype,
        "max-model-len": engine.max_model_len,
        "max-num-seqs": engine.max_num_seqs,
        "kv-cache-memory-bytes": engine.kv_cache_bytes,
        "tensor-parallel-size": engine.tensor_parallel_size,
        "pipeline-parallel-size": engine.pipeline_parallel_size,
        "disable-uvicorn-access-log": True,
        # Tool calls need both; a model that was never taught them pays nothing.
        "enable-auto-tool-choice": True,
        "tool-call-parser": "hermes",
    }
    if not settings.accelerator:
        flags["enforce-eager"] = True
    for name, value in engine.engine_args.items():
        flag = name.removeprefix("--").replace("_", "-")
        if flag in RESERVED_FLAGS:
            raise InputError(f"engine.engine_args.{name}: set by Slipway, cannot be changed here")
        flags[flag] = value
    if not settings.accelerator and all(str(flags.get(split) or 1) == "1" for split in SPLITS):
        flags.setdefault("distributed-executor-backend", IN_ENGINE_CORE)
    return flags


def _flag(name: str, value: Any) -> list[str]:
    """One engine argument as command line words; null takes a default of Slipway's away."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, list):
        return [f"--{name}", *(_word(item) for item in value)]
    return [f"--{name}", _word(value)]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
