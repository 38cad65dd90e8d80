"""The fabric in plans of whole environments: refusals, and what `slipway plan` shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cli.views.capacity_table import capacity_table
from slipway.config.errors import ConfigError
from slipway.plan.draft import PlatformDraft
from slipway.planner.fabric.environment import variables_of
from slipway.planner.platform import draft_plan
from slipway.planner.reports.explain import explain
from tests.unit.cli.views.figures import shown
from tests.unit.planner.fleets import CATALOG, H100, OWNED, fleet, model_file

SPREAD = model_file(parallel={"tensor": 8, "pipeline": 2})
ON_ONE_HOST = model_file(parallel={"tensor": 8})
TITLE = "environment of members"


def planned(model: Mapping[str, Any], pool: Mapping[str, Any], **fabric: Any) -> PlatformDraft:
    settings = dict(pool) | ({"fabric": fabric} if fabric else {})
    return draft_plan(fleet(model, pools={"gpu": settings}, replicas={"min": 1, "max": 1}))


def of_hosts(*domains: str | None) -> dict[str, Any]:
    """A pool that lists a host in each of the domains."""
    hosts = [
        {"name": f"rack{number}", "address": f"10.40.0.{20 + number}"}
        | ({"domain": domain} if domain else {})
        for number, domain in enumerate(domains)
    ]
    pool = {key: value for key, value in OWNED.items() if key != "nodes"}
    return pool | {"hosts": hosts, "memory": "1TiB", "cpu": 96, "fabric": "infiniband"}


def test_a_plan_shows_the_variables_of_members_with_default_and_override() -> None:
    plan = planned(SPREAD, OWNED, kind="roce", gid_index=3, environment={"NCCL_IB_GID_INDEX": "1"})
    text = shown(capacity_table(plan), 160)
    (line,) = [line for line in text.splitlines() if "NCCL_IB_GID_INDEX" in line]
    assert line.split()[:4] == ["chat", "NCCL_IB_GID_INDEX", "3", "1"]
    assert TITLE in text


@pytest.mark.parametrize("width", [80, 160])
def test_every_variable_is_shown_at_every_width(width: int) -> None:
    plan = planned(SPREAD, H100)
    (model,) = plan.models
    text = shown(capacity_table(plan), width)
    variables = variables_of(model, plan.pool("gpu").fabric)
    assert {variable.name for variable in variables} >= {"NCCL_NET", "GLOO_SOCKET_IFNAME"}
    for variable in variables:
        assert variable.name in text


def test_replicas_on_one_host_have_no_variables_to_show() -> None:
    plan = planned(ON_ONE_HOST, OWNED, kind="roce", environment={"NCCL_DEBUG": "INFO"})
    (model,) = plan.models
    assert model.replica.nodes == 1
    assert TITLE not in shown(capacity_table(plan), 160)
    assert variables_of(model, plan.pool("gpu").fabric) == ()


def test_the_explanation_has_every_variable_with_its_source() -> None:
    plan = planned(SPREAD, OWNED, kind="roce", gid_index=3, environment={"NCCL_NET": "Socket"})
    (model,) = plan.models
    fabric = plan.pool("gpu").fabric
    lines = {
        line.quantity.removeprefix("member: "): line
        for line in explain(
            model, CATALOG.models[model.architecture], CATALOG.accelerators["H100-80"], fabric
        )
        if line.quantity.startswith("member: ")
    }
    assert lines.keys() == {variable.name for variable in variables_of(model, fabric)}
    assert lines["NCCL_IB_GID_INDEX"].result == "3"
    assert "NVIDIA" in lines["NCCL_IB_GID_INDEX"].source
    assert (lines["NCCL_NET"].result, lines["NCCL_NET"].arithmetic) == (
        "Socket",
        "overridden by the pool; default IB",
    )


@pytest.mark.parametrize("pool", [OWNED, H100], ids=["metal", "aws"])
def test_a_variable_of_no_list_is_refused_with_those_that_are(pool: Mapping[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        planned(ON_ONE_HOST, pool, environment={"NCCL_IB_TIMEOUTS": "22", "NCCL_DEBUG": "INFO"})
    (problem,) = refused.value.problems
    assert problem.key == "slipway:pools.gpu.fabric.environment.NCCL_IB_TIMEOUTS"
    assert "catalog/fabric_variables.yaml" in problem.message
    assert problem.value == "22"
    assert "NCCL_IB_TIMEOUT" in problem.fix


def test_a_pool_with_groups_is_one_domain() -> None:
    with pytest.raises(ConfigError) as refused:
        planned(SPREAD, of_hosts("hall-1", "hall-2"))
    (problem,) = refused.value.problems
    assert problem.key == "slipway:pools.gpu"
    assert "chat takes several hosts" in problem.message
    assert problem.value == {"rack0": "hall-1", "rack1": "hall-2"}


@pytest.mark.parametrize(
    ("model", "domains"),
    [
        (SPREAD, ("hall-1", "hall-1")),
        (SPREAD, (None, None)),
        (ON_ONE_HOST, ("hall-1", "hall-2")),
    ],
)
def test_other_pools_may_have_the_domains_they_have(
    model: Mapping[str, Any], domains: tuple[str | None, ...]
) -> None:
    plan = planned(model, of_hosts(*domains))
    assert plan.pool("gpu").fabric.kind == "infiniband"
