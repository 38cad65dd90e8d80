"""When an engine that stands still is killed, and which limits are refused."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from slipway.config.document import Origin
from slipway.config.errors import ConfigError
from slipway.planner.stall import (
    LEAST_LIMIT_S,
    LIMIT_STEPS,
    least_stall_s,
    stall_problems,
    stall_s,
)
from stacks.planning import make_plan
from tests.unit.plan.samples import ROOT, dev_inputs
from tests.unit.planner.fleets import H100, engine, fleet, model_file

ORIGIN = Origin(source="models/chat.yaml", lines={("routing", "stall_s"): 4})
WATCHERS = Path("services/program/liveness/stillness.py")


def test_it_is_ten_seconds_unless_a_step_may_take_longer() -> None:
    assert [stall_s(step_s) for step_s in (0.02, 2.5, 2.6, 30)] == [10, 10, 11, 120]
    assert stall_s(0.02, stated=2.5) == 2.5


@pytest.mark.parametrize(("longest_step_s", "least_s"), [(0.02, 1), (0.5, 1), (4.2, 8.4)])
def test_no_limit_kills_an_engine_at_work(longest_step_s: float, least_s: float) -> None:
    assert least_stall_s(longest_step_s) == pytest.approx(least_s)
    assert not list(stall_problems(longest_step_s, None, ORIGIN))
    assert not list(stall_problems(longest_step_s, least_s, ORIGIN))
    (refused,) = stall_problems(longest_step_s, least_s - 0.1, ORIGIN)
    assert (refused.source, refused.line, refused.key) == (
        "models/chat.yaml",
        4,
        "routing.stall_s",
    )
    assert refused.value == least_s - 0.1
    assert f"its longest step may take {longest_step_s:.3g} s" in refused.message
    assert refused.fix.startswith("use at least")


def test_the_watcher_has_the_same_rule() -> None:
    tree = ast.parse((ROOT / WATCHERS).read_text())
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    rule = {"LEAST_LIMIT_S": LEAST_LIMIT_S, "LIMIT_STEPS": LIMIT_STEPS}
    assert constants.items() >= rule.items()


def test_a_model_files_own_time_is_used_or_refused_with_the_longest_step() -> None:
    def planned(stall_s: int) -> dict[str, Any]:
        inputs = dev_inputs()
        (name, model), *_ = inputs.models.items()
        routing = model.settings.routing.model_copy(update={"stall_s": stall_s})
        settings = model.settings.model_copy(update={"routing": routing})
        changed = dataclasses.replace(model, settings=settings)
        models = {**inputs.models, name: changed}
        return make_plan(dataclasses.replace(inputs, models=models)).models[0].replica.document

    assert planned(40)["stall_s"] == 40
    with pytest.raises(ConfigError, match="kills an engine at work"):
        planned(2)


def test_every_replica_is_told_how_it_is_judged() -> None:
    (processors,) = make_plan(dev_inputs()).models
    file = model_file(engine=engine("llama-3.1-8b", max_model_len=8192, max_num_seqs=64))
    (accelerators,) = make_plan(fleet(file, pools={"h100": H100})).models
    for model in (processors, accelerators):
        document = model.replica.document
        assert document["schema_version"] == 4
        assert document["stall_s"] == stall_s(document["longest_step_s"])
        assert model.replica.ports[-1] == "liveness"
    assert accelerators.replica.document["longest_step_s"] < 1
