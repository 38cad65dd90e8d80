"""The input of a replica: replica.json and the environment of its task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program.group.settings import Group, read_group

from simulator.faults import NONE, BadFaultError, Faults, parse_json

SCHEMA_VERSION = 4
ACCEPTED_VERSIONS = (SCHEMA_VERSION - 1, SCHEMA_VERSION)
DEFAULT_MAX_NUM_BATCHED_TOKENS = 2048  # vLLM's default for an online server


class BadInputError(Exception):
    """A mistake in the document or the environment; the message says where and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """`engine` of replica.json; the last four are its `engine_args`."""

    architecture: str
    profile: str
    max_model_len: int
    max_num_seqs: int
    kv_cache_bytes: int
    startup_s: float
    pipeline_parallel_size: int  # members of the group; 1: a replica of one
    max_num_batched_tokens: int
    answer_tokens: int  # length of a chat answer when the client sets no limit
    time_scale: float  # factor on all simulated times; 0: as fast as possible
    faults: Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """By which a watcher judges the engine."""

    longest_step_s: float
    stall_s: float  # after so long without a step the engine is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    model: str
    aliases: tuple[str, ...]
    engine: EngineSettings
    load_timeout_s: float
    drain_timeout_s: float
    liveness: Liveness | None = None  # None in a document of version 3: nobody watches
    group: Group | None = None  # None for a replica of one; its members find each other

    @property
    def names(self) -> tuple[str, ...]:
        """Every name the model answers to."""
        return (self.model, *self.aliases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Where the process listens."""

    address: str
    openai: int
    grpc: int
    http: int
    metrics: int

    @property
    def ports(self) -> tuple[int, ...]:
        return (self.openai, self.grpc, self.http, self.metrics)


def read_listeners(environment: Mapping[str, str]) -> Listeners:
    """Raises BadInputError when a SLIPWAY_* variable is missing or not a port."""
    return Listeners(
        address=_variable(environment, "SLIPWAY_ADDRESS"),
        openai=_port(environment, "SLIPWAY_PORT_OPENAI"),
        grpc=_port(environment, "SLIPWAY_PORT_GRPC"),
        http=_port(environment, "SLIPWAY_PORT_HTTP"),
        metrics=_port(environment, "SLIPWAY_PORT_METRICS"),
    )


def read_watcher_listener(environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Address and port of the liveness page, None if there is none. Raises BadInputError."""
    if "SLIPWAY_PORT_LIVENESS" not in environment:
        return None
    return _variable(environment, "SLIPWAY_ADDRESS"), _port(environment, "SLIPWAY_PORT_LIVENESS")


def read_replica(path: Path) -> Replica:
    """Raises BadInputError when the file is missing, is not JSON, or breaks the schema."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BadInputError(f"{path}: not JSON: {error}") from error
    try:
        return _replica(DocumentObject(document, ""))
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None


class DocumentObject:
    """A JSON object whose values are checked as they are taken."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise BadInputError(f"{where or 'document'}: must be an object")
        self._value = value
        self._where = where

    def key(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def value(self, name: str, default: object = None) -> Any:
        value = self._value.get(name, default)
        if value is None:
            raise BadInputError(f"{self.key(name)}: is missing")
        return value

    def has(self, name: str) -> bool:
        """Whether there is a value other than null."""
        return self._value.get(name) is not None

    def object(self, name: str) -> DocumentObject:
        return DocumentObject(self._value.get(name, {}), self.key(name))

    def text(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str) or not value:
            raise BadInputError(f"{self.key(name)}: {value!r} must be a non-empty string")
        return value

    def number(self, name: str, default: float | None = None, *, minimum: float = 0) -> float:
        value = self.value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < minimum:
            raise BadInputError(f"{self.key(name)}: {value!r} must be a number >= {minimum}")
        return float(value)

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInputError(f"{self.key(name)}: {value!r} must be an integer >= 1")
        return value

    def refuse_others(self, allowed: tuple[str, ...]) -> None:
        for name in self._value:
            if name not in allowed:
                known = ", ".join(allowed)
                raise BadInputError(f"{self.key(name)}: unknown; use one of: {known}")


def _replica(document: DocumentObject) -> Replica:
    version = document.value("schema_version")
    if version not in ACCEPTED_VERSIONS:
        raise BadInputError(f"schema_version: {version!r}; this program reads {ACCEPTED_VERSIONS}")
    aliases = document.value("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise BadInputError(f"aliases: {aliases!r} must be a list of strings")
    return Replica(
        model=document.text("model"),
        aliases=tuple(aliases),
        engine=_engine(document.object("engine")),
        load_timeout_s=document.number("load_timeout_s", 600),
        drain_timeout_s=document.number("drain_timeout_s", 600),
        liveness=_liveness(document) if version == SCHEMA_VERSION else None,
        group=_group(document.value("group")) if document.has("group") else None,
    )


def _group(content: object) -> Group:
    if not isinstance(content, dict):
        raise BadInputError(f"group: {content!r} must be an object")
    try:
        return read_group(content)
    except ValueError as error:
        raise BadInputError(str(error)) from error


def _liveness(document: DocumentObject) -> Liveness:
    return Liveness(
        longest_step_s=document.number("longest_step_s"), stall_s=document.number("stall_s")
    )


def _engine(engine: DocumentObject) -> EngineSettings:
    if engine.value("kind") != "sim":
        raise BadInputError(f"engine.kind: {engine.value('kind')!r}; this program runs 'sim'")
    arguments = engine.object("engine_args")
    arguments.refuse_others(("max_num_batched_tokens", "answer_tokens", "time_scale", "faults"))
    max_num_seqs = engine.integer("max_num_seqs")
    return EngineSettings(
        architecture=engine.text("architecture"),
        profile=engine.text("profile"),
        max_model_len=engine.integer("max_model_len"),
        max_num_seqs=max_num_seqs,
        kv_cache_bytes=engine.integer("kv_cache_bytes"),
        startup_s=engine.number("startup_s", 0),
        pipeline_parallel_size=engine.integer("pipeline_parallel_size", 1),
        max_num_batched_tokens=arguments.integer(
            "max_num_batched_tokens", max(DEFAULT_MAX_NUM_BATCHED_TOKENS, max_num_seqs)
        ),
        answer_tokens=arguments.integer("answer_tokens", 128),
        time_scale=arguments.number("time_scale", 1.0),
        faults=_faults(arguments.value("faults", {})),
    )


def _faults(value: object) -> Faults:
    if not isinstance(value, dict):
        raise BadInputError(f"engine.engine_args.faults: {value!r} must be an object")
    try:
        return parse_json(value) if value else NONE
    except BadFaultError as error:
        raise BadInputError(f"engine.engine_args.faults: {error}") from error


def _variable(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise BadInputError(f"environment variable {name} is not set")
    return value


def _port(environment: Mapping[str, str], name: str) -> int:
    text = _variable(environment, name)
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise BadInputError(f"environment variable {name}={text!r} must be a port, 1 to 65535")
    return int(text)
