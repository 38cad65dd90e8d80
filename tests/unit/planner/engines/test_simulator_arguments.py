"""What planning accepts for the simulator is what the simulator accepts at its start."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.planner.engines.sim.arguments import ARGUMENTS, FAULTS, argument_problems
from tests.unit.plan.samples import ROOT

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3000),
    st.floats(-2, 3, allow_nan=False),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)
FAULT_VALUES = st.dictionaries(st.sampled_from([*FAULTS, "slo"]), VALUES, max_size=2)


@pytest.fixture(scope="module")
def reader() -> ModuleType:
    """services/engine_sim's own reader of its document; it needs the standard library only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "services/engine_sim"))
        return importlib.import_module("simulator.document")


def problems(arguments: Mapping[str, Any]) -> list[Problem]:
    return list(argument_problems(arguments, Origin(source="models/sim.yaml")))


def refused_at_the_start(reader: ModuleType, arguments: Mapping[str, Any]) -> bool:
    engine = {
        "kind": "sim",
        "architecture": "llama-3.1-8b",
        "profile": "h100-fp8-llama-3.1-8b",
        "max_model_len": 8192,
        "max_num_seqs": 1,
        "kv_cache_bytes": 1,
        "engine_args": arguments,
    }
    document = {"schema_version": 3, "model": "sim", "engine": engine}
    try:
        reader._replica(reader.DocumentObject(document, ""))
    except reader.BadInputError:
        return True
    return False


@given(
    name=st.sampled_from([*ARGUMENTS, "answer_token"]),
    value=st.one_of(VALUES, FAULT_VALUES),
)
@example(name="answer_tokens", value="lots")
@example(name="answer_tokens", value=None)
@example(name="time_scale", value=True)
@example(name="faults", value={"error": 1.5})
@example(name="faults", value={"hang": None, "die": True})
def test_an_argument_is_refused_when_the_simulator_would_refuse_it(
    reader: ModuleType, name: str, value: Any
) -> None:
    assert bool(problems({name: value})) == refused_at_the_start(reader, {name: value})


def test_a_refusal_names_the_key_and_what_is_allowed() -> None:
    (wrong,) = problems({"answer_tokens": "lots", "time_scale": 0})
    assert wrong.key == "engine.engine_args.answer_tokens"
    assert "must be a whole number of at least 1" in wrong.message
    (wrong,) = problems({"faults": {"error": 2, "slow": 3}})
    assert wrong.key == "engine.engine_args.faults.error"
    (wrong,) = problems({"faults": {"slo": 3}})
    assert wrong.key == "engine.engine_args.faults.slo"
    assert "slow" in wrong.fix
