"""How vLLM's OpenAI server is started: its command line and its environment. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replica.document import ReplicaDocument
from replica.errors import InputError
from replica.programs import Programs
from replica.settings import VISIBLE_DEVICES, Settings

# Set by Slipway: another value in `engine_args` would break the contract with the gateway or
# contradict the memory that the planner reserved.
# Without its statistics an engine tells of no step that ended no token.
RESERVED_FLAGS = frozenset(
    {
        "host",
        "port",
        "uds",
        "model",
        "served-model-name",
        "disable-log-stats",
        "nnodes",
        "node-rank",
        "master-addr",
        "master-port",
        "headless",
    }
)

# Engine core and workers are forks with everything imported. CPUs only: not tried on an
# accelerator.
SERVICE = Path(__file__).resolve().parent.parent
CPU_SERVER, DEVICE_SERVER = SERVICE / "engine_server.py", SERVICE / "device_engine_server.py"
CPU_MEMBER, DEVICE_MEMBER = SERVICE / "engine_member.py", SERVICE / "device_engine_member.py"
# Of the folder of the server: the headers of an answer come with its first token.
MIDDLEWARE = "engine_headers.HeadersWithTheFirstToken"
# Where other members may be lost: rank 0 can turn new requests away.
GROUP_MIDDLEWARE = "engine_turning_away.TurnsAway"
# The last is around all others.
ERRORS_MIDDLEWARE = "engine_message_errors.ErrorsOfMessages"

# The engine core runs the model itself, as vLLM does on one GPU. On a CPU vLLM refuses it under the
# name "uni", in order to bind a worker's threads (switched off below); the two processes would then
# poll their shared memory while they work: streams paused for up to 4 s on two cores (measured).
IN_ENGINE_CORE = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
# The arguments that divide a model among several workers.
SPLITS = ("tensor-parallel-size", "pipeline-parallel-size", "prefill-context-parallel-size")

# The formats into which vLLM quantizes plain weights while it loads them. Other formats are
# declared by the checkpoint itself: naming them could only contradict it, or choose a slower
# kernel.
MADE_AT_START = frozenset({"fp8"})

# What the agent's own environment may have for the other kind of engine.
FOR_PROCESSORS = ("VLLM_CPU_", "OMP_")
FOR_ACCELERATORS = ("CUDA_", "NVIDIA_", "ROCR_", "HIP_", "HSA_", "NCCL_", "RCCL_")

# `n` of one request. vLLM's own limit of 16384 lets one request keep an engine to itself for
# minutes; the Triton model has the same limit (backend/generation.py).
MOST_CHOICES = 128


# vLLM's warm-up makes the buffers of a pipeline's later stages on processors, and --enforce-eager
# skips it; this compiles nothing either.
EAGER_WITH_WARM_UP = {"mode": 2, "backend": "eager"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMember:
    """The engine's part of a formed group: where the engines meet, and which of them this is."""

    rank: int
    nodes: int
    master_address: str
    master_port: int


def engine_command(
    document: ReplicaDocument,
    settings: Settings,
    programs: Programs,
    member: EngineMember | None = None,
) -> list[str]:
    """The command of the API server or, above rank 0 of a group, of the workers alone. Raises
    InputError for a reserved engine argument."""
    command = [
        str(programs.engine_python),
        str(_program(document, member)),
        "--served-model-name",
        *document.names,
        *("--middleware", MIDDLEWARE),
    ]
    if member is not None and member.rank == 0:
        command += ["--middleware", GROUP_MIDDLEWARE]
    command += ["--middleware", ERRORS_MIDDLEWARE]
    flags = _flags(document, settings)
    if member is not None:
        flags |= _flags_of_member(document, member)
    for name, value in sorted(flags.items()):
        command += _flag(name, value)
    return command


def _program(document: ReplicaDocument, member: EngineMember | None) -> Path:
    if member is None or member.rank == 0:
        return DEVICE_SERVER if document.on_accelerators else CPU_SERVER
    return DEVICE_MEMBER if document.on_accelerators else CPU_MEMBER


def _flags_of_member(document: ReplicaDocument, member: EngineMember) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "nnodes": member.nodes,
        "node-rank": member.rank,
        "master-addr": member.master_address,
        "master-port": member.master_port,
        "distributed-executor-backend": "mp",
    }
    if not document.on_accelerators:
        flags |= {"enforce-eager": None, "compilation-config": EAGER_WITH_WARM_UP}
    return flags


def check_devices(document: ReplicaDocument, settings: Settings) -> None:
    """Raises InputError if the scheduler did not give the task what the replica was planned with:
    otherwise the engine would run on fewer devices, or on those of another task."""
    planned = document.devices
    if planned is None:
        return
    given = settings.devices[planned.vendor]
    if len(given) != planned.count:
        raise InputError(
            f"devices: the plan has {planned.count} {planned.vendor} devices, but"
            f" {VISIBLE_DEVICES[planned.vendor]} lists {len(given)}"
        )


def engine_environment(
    document: ReplicaDocument, settings: Settings, inherited: Mapping[str, str], temporary: Path
) -> dict[str, str]:
    """The environment of the API server and of every process below it.

    `temporary` must be short: vLLM creates sockets below it, whose paths may have at most 107
    characters.
    """
    foreign = FOR_PROCESSORS if document.on_accelerators else FOR_ACCELERATORS
    environment = {
        **{name: value for name, value in inherited.items() if not name.startswith(foreign)},
        "TMPDIR": str(temporary),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        # vLLM caches facts about model classes, by default in the home folder.
        "VLLM_CACHE_ROOT": str(settings.engine_cache),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
        "VLLM_LOGGING_COLOR": "0",
        "VLLM_MAX_N_SEQUENCES": str(MOST_CHOICES),
        # Seconds before an idle connection is closed: longer than its clients, Envoy (1 h) and our
        # backend, keep one. The client must be the one to close: a request that crosses the
        # server's close is lost.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "3700",
        # Engine and workers rename themselves, which by default overwrites the memory behind
        # /proc/<pid>/environ: the marker by which they are found would be lost.
        "SPT_NOENV": "1",
    }
    if not document.on_accelerators:
        environment |= {
            # vLLM's own binding puts the workers of every replica on core 0.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(document.engine.threads),
            # Threads that spin while they wait take the cores from other replicas: four streams
            # of two replicas on two cores had 4.7 tokens/s together with spinning, 22.8 without.
            "OMP_WAIT_POLICY": "passive",
        }
        # It takes whole GiB only, and would override the flag with the exact size.
        environment.pop("VLLM_CPU_KVCACHE_SPACE", None)
    if document.group is None and _flags(document, settings).get("enforce-eager") is True:
        # Eager mode leaves two small functions of the sampler to torch.compile: the first request
        # with logprobs stopped the engine for 24 s (measured), and every node needed a C++
        # compiler.
        environment["TORCHDYNAMO_DISABLE"] = "1"
    return environment


def _flags(document: ReplicaDocument, settings: Settings) -> dict[str, Any]:
    engine = document.engine
    flags: dict[str, Any] = {
        "model": str(settings.store / document.weights),
        "host": settings.address,
        "port": settings.port_openai,
        "dtype": engine.dtype,
        "max-model-len": engine.max_model_len,
        "max-num-seqs": engine.max_num_seqs,
        "kv-cache-memory-bytes": engine.kv_cache_bytes,
        "gpu-memory-utilization": engine.gpu_memory_utilization,
        "quantization": engine.quantization if engine.quantization in MADE_AT_START else None,
        "kv-cache-dtype": engine.kv_cache_dtype,
        "tensor-parallel-size": engine.tensor_parallel_size,
        "pipeline-parallel-size": engine.pipeline_parallel_size,
        "data-parallel-size": engine.data_parallel_size if engine.data_parallel_size > 1 else None,
        "enable-expert-parallel": True if engine.expert_parallel else None,
        "disable-uvicorn-access-log": True,
        # Tool calls need both; other models lose nothing.
        "enable-auto-tool-choice": True,
        "tool-call-parser": "hermes",
    }
    if not document.on_accelerators:
        flags["enforce-eager"] = True
    elif settings.numa_nodes > 1 and settings.has_numactl and document.container is None:
        # Each worker, and the memory it copies from, beside its device. vLLM does it by numactl,
        # and does not start without. Docker's seccomp profile forbids it to containers.
        flags["numa-bind"] = True
    for name, value in engine.engine_args.items():
        flag = name.removeprefix("--").replace("_", "-")
        if flag in RESERVED_FLAGS:
            raise InputError(
                f"engine.engine_args.{name}: set by Slipway and cannot be changed here"
            )
        flags[flag] = value
    if not document.on_accelerators and all(str(flags.get(split) or 1) == "1" for split in SPLITS):
        flags.setdefault("distributed-executor-backend", IN_ENGINE_CORE)
    return flags


def _flag(name: str, value: Any) -> list[str]:
    """One engine argument as command line words; null removes a default of Slipway's."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, list):
        return [f"--{name}", *(_word(item) for item in value)]
    return [f"--{name}", _word(value)]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
