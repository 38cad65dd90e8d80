from __future__ import annotations

import io

import pytest
from rich.console import Console

from cli.views.plan_table import plan_table
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_plan
from tests.unit.planner.fleets import OWNED, fleet


def _rendered(plan: PlatformPlan) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    with console.capture() as capture:
        console.print(plan_table(plan))
    return capture.get()


def _row(text: str, first: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.split()[:1] == [first]]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_table_shows_pools_models_and_the_gateway() -> None:
    plan = dev_plan()
    text = _rendered(plan)
    assert _row(text, "cpu")[:3] == ["cpu", "2 local", "127.77.0.16-17"]
    assert _row(text, "edge")[2] == "127.77.0.32"
    smollm2 = _row(text, "smollm2")
    assert smollm2[:6] == ["smollm2", "1-2 cpu", "513 MiB", "1.0 GiB", "23,301", "4.5 GiB"]
    assert "http://127.77.0.32:8080" in text


def test_addresses_that_do_not_follow_each_other_are_listed() -> None:
    hosts = [{"name": f"rack{k}", "address": f"10.40.0.{k}"} for k in (9, 3)]
    listed = {"nodes": None, "hosts": hosts, "memory": "1TiB", "cpu": 96}
    plan = make_plan(fleet(pools={"h100": OWNED | listed}))
    assert _row(_rendered(plan), "h100")[2] == "10.40.0.9, 10.40.0.3"


def test_the_table_says_when_a_change_has_no_room_beside() -> None:
    roomy = dev_plan()
    tight = dev_plan(
        pools={
            "cpu": {"kind": "local", "nodes": 2, "memory": "5GiB"},
            "edge": {"kind": "local", "nodes": 1},
        }
    )
    assert _row(_rendered(roomy), "smollm2")[-1] == "room for 2"
    assert _row(_rendered(tight), "smollm2")[-1] == "no room"


@pytest.mark.parametrize(("least", "warned"), [(1, True), (2, False)])
def test_the_table_says_how_a_model_is_changed_and_when_it_is_not_served_meanwhile(
    least: int, warned: bool
) -> None:
    deployment = {"pool": "cpu", "replicas": {"min": least, "max": 2}, "surge": 0}
    text = _rendered(dev_plan(models={"smollm2": deployment}))
    assert _row(text, "smollm2")[-1] == "in turn"
    assert ("smollm2: surge: 0 with min 1: no replica serves" in text) is warned
