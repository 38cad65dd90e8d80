"""The replica's document (schemas/replica.schema.json) as typed values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from program.group.settings import Group, read_group

from replica.errors import InputError
from replica.settings import VISIBLE_DEVICES

# This version and the previous one: nodes and program are upgraded one after the other.
SCHEMA_VERSION = 4
ACCEPTED_VERSIONS = (SCHEMA_VERSION - 1, SCHEMA_VERSION)

# Names are used as folders, in Triton's configuration, and in the shell that starts its stubs.
NAME = re.compile("[a-z0-9]([a-z0-9-]*[a-z0-9])?")
ALIAS = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """vLLM's settings. On CPUs the KV cache has a size, and `threads` counts OpenMP threads per
    device; on accelerators the KV cache takes what is left of `gpu_memory_utilization`.

    `quantization` is Slipway's name for the format of the weights as published, or for the one into
    which vLLM quantizes them while it loads them.
    """

    dtype: str
    max_model_len: int
    max_num_seqs: int
    kv_cache_bytes: int | None
    gpu_memory_utilization: float | None
    quantization: str | None
    kv_cache_dtype: str | None
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    expert_parallel: bool
    threads: int
    engine_args: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The accelerators that a replica was planned with."""

    vendor: str
    count: int  # on this node


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What the image in which the replica runs must have."""

    vllm: str  # the version that the replica was planned with


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """By which the launcher judges whether the replica moves."""

    longest_step_s: float  # of the engine, by the plan
    stall_s: float  # after so long without a step the engine is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDocument:
    model: str
    aliases: tuple[str, ...]
    weights: str  # folder, relative to the store (SLIPWAY_STORE)
    engine: EngineSpec
    load_timeout_s: int
    drain_timeout_s: int
    devices: Devices | None  # None on processors
    container: Container | None = None  # None where it runs on the host itself
    liveness: Liveness | None = None  # None in a document of version 3: nothing is judged
    group: Group | None = None  # None where one host has all of it

    @property
    def on_accelerators(self) -> bool:
        return self.engine.gpu_memory_utilization is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that clients may use, the model's own first."""
        return (self.model, *self.aliases)


def load_document(path: Path) -> ReplicaDocument:
    """Read a document. Raises InputError naming the file and the field."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected an object")
    try:
        return _document(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _document(content: Mapping[str, Any]) -> ReplicaDocument:
    version = _field(content, "schema_version", int)
    if version not in ACCEPTED_VERSIONS:
        raise InputError(f"schema_version {version} is not one of {ACCEPTED_VERSIONS}")
    engine = _engine(_field(content, "engine", dict))
    devices = _devices(content["devices"]) if "devices" in content else None
    if (devices is None) != (engine.gpu_memory_utilization is None):
        raise InputError("devices and engine.gpu_memory_utilization must be given together")
    return ReplicaDocument(
        model=_name(content),
        aliases=tuple(_alias(name) for name in _field(content, "aliases", list)),
        weights=_field(content, "weights", str),
        engine=engine,
        load_timeout_s=_positive(content, "load_timeout_s"),
        drain_timeout_s=_positive(content, "drain_timeout_s"),
        devices=devices,
        container=_container(content["container"]) if "container" in content else None,
        liveness=_liveness(content) if version == SCHEMA_VERSION else None,
        group=_group(_field(content, "group", dict)) if "group" in content else None,
    )


def _liveness(content: Mapping[str, Any]) -> Liveness:
    return Liveness(
        longest_step_s=_seconds(content, "longest_step_s"), stall_s=_seconds(content, "stall_s")
    )


def _engine(content: Mapping[str, Any]) -> EngineSpec:
    kind = _field(content, "kind", str)
    if kind != "vllm":
        raise InputError(f"engine.kind {kind!r}: this service runs 'vllm' only")
    utilization = _optional(content, "gpu_memory_utilization", float)
    if utilization is not None and not 0 < utilization <= 1:
        raise InputError(f"gpu_memory_utilization: {utilization} is not above 0 and at most 1")
    if utilization is not None and "kv_cache_bytes" in content:
        raise InputError("kv_cache_bytes and gpu_memory_utilization contradict each other")
    return EngineSpec(
        dtype=_field(content, "dtype", str),
        max_model_len=_positive(content, "max_model_len"),
        max_num_seqs=_positive(content, "max_num_seqs"),
        kv_cache_bytes=None if utilization else _positive(content, "kv_cache_bytes"),
        gpu_memory_utilization=utilization,
        quantization=_optional(content, "quantization", str),
        kv_cache_dtype=_optional(content, "kv_cache_dtype", str),
        tensor_parallel_size=_positive(content, "tensor_parallel_size", default=1),
        pipeline_parallel_size=_positive(content, "pipeline_parallel_size", default=1),
        data_parallel_size=_positive(content, "data_parallel_size", default=1),
        expert_parallel=_field(content, "expert_parallel", bool, default=False),
        threads=_positive(content, "threads", default=1),
        engine_args=_field(content, "engine_args", dict, default={}),
    )


def _devices(content: Mapping[str, Any]) -> Devices:
    vendor = _field(content, "vendor", str)
    if vendor not in VISIBLE_DEVICES:
        raise InputError(f"devices.vendor: {vendor!r} is not one of {', '.join(VISIBLE_DEVICES)}")
    return Devices(vendor=vendor, count=_positive(content, "count"))


def _container(content: Mapping[str, Any]) -> Container:
    return Container(vllm=_field(content, "vllm", str))


def _group(content: Mapping[str, Any]) -> Group:
    try:
        return read_group(content)
    except ValueError as error:
        raise InputError(str(error)) from error


def _field(content: Mapping[str, Any], name: str, kind: type[T], *, default: T | None = None) -> T:
    value = content.get(name, default)
    if value is None:
        raise InputError(f"{name}: missing")
    # bool is an int in Python, but not in JSON
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise InputError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def _optional(content: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    return _field(content, name, kind) if name in content else None


def _name(content: Mapping[str, Any]) -> str:
    name = _field(content, "model", str)
    if not NAME.fullmatch(name):
        raise InputError(f"model: {name!r} is not a name of a-z, 0-9 and inner dashes")
    return name


def _alias(value: object) -> str:
    if not isinstance(value, str) or not ALIAS.fullmatch(value):
        raise InputError(
            f"aliases: {value!r} is not a name of at most 63 letters, digits, dots, underscores"
            " and dashes"
        )
    return value


def _positive(content: Mapping[str, Any], name: str, *, default: int | None = None) -> int:
    value = _field(content, name, int, default=default)
    if value <= 0:
        raise InputError(f"{name}: {value} is not above 0")
    return value


def _seconds(content: Mapping[str, Any], name: str) -> float:
    """JSON does not tell 10 from 10.0."""
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise InputError(f"{name}: {value!r} is not a number of seconds")
    return float(value)
