"""Nodes of an elastic pool are replaced by AWS's instance refreshes, which this follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aws_command
import pytest
from program.errors import HostError, InputError
from refresh.group import Group, read_group, read_refreshes
from refresh.main import Refresh, apply, read_refresh

NEW, OLD = ({"LaunchTemplateId": "lt-1", "Version": version} for version in ("2", "1"))
DOCUMENT = {
    "schema_version": 1,
    "region": "us-east-1",
    "pool": "l4",
    "group": "slipway-prod-l4",
    "template": "0" * 64,
    "min_healthy_percent": 100,
    "max_healthy_percent": 110,
}


def instance(name: str, template: dict[str, str], state: str = "InService") -> dict[str, Any]:
    return {"InstanceId": name, "LifecycleState": state, "LaunchTemplate": template}


def group(*instances: dict[str, Any]) -> dict[str, Any]:
    return {"AutoScalingGroups": [{"LaunchTemplate": NEW, "Instances": list(instances)}]}


class Cloud:
    """AWS as its command line shows it: `templates` are those of the group's instances; a refresh
    replaces one for each look at it, and may end otherwise."""

    def __init__(self, templates: dict[str, dict[str, str]], ends: str = "Successful") -> None:
        self.templates, self.ends = templates, ends
        self.refreshes: list[dict[str, Any]] = []
        self.started: list[tuple[str, ...]] = []

    def ask(self, region: str, service: str, action: str, *arguments: str) -> Any:
        assert (region, service) == ("us-east-1", "autoscaling")
        if action == "describe-auto-scaling-groups":
            return group(*(instance(*each) for each in self.templates.items()))
        if action == "start-instance-refresh":
            self.started.append(arguments)
            number = str(len(self.refreshes))
            self.refreshes.insert(0, {"InstanceRefreshId": number, "Status": "Pending"})
            return {"InstanceRefreshId": number}
        self._go_on()
        wanted = arguments[3] if "--instance-refresh-ids" in arguments else None
        found = [each for each in self.refreshes if wanted in (None, each["InstanceRefreshId"])]
        return {"InstanceRefreshes": found}

    def _go_on(self) -> None:
        if not self.refreshes or self.refreshes[0]["Status"] not in ("Pending", "InProgress"):
            return
        outdated = [name for name, template in self.templates.items() if template == OLD]
        newest = self.refreshes[0]
        if newest["Status"] == "InProgress" and self.ends != "Successful":
            newest.update(Status=self.ends, StatusReason="i-1 did not join", PercentageComplete=0)
        elif outdated:
            del self.templates[outdated[0]]
            self.templates[f"{outdated[0]}-new"] = NEW
            newest.update(Status="InProgress", InstancesToUpdate=len(outdated) - 1)
        else:
            newest.update(Status="Successful", PercentageComplete=100, InstancesToUpdate=0)


@pytest.fixture
def refresh() -> Refresh:
    return read_refresh(DOCUMENT)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def played(cloud: Cloud) -> Cloud:
        monkeypatch.setattr(aws_command, "ask", cloud.ask)
        return cloud

    return played


def run(refresh: Refresh) -> None:
    apply(refresh, lambda: None)


def test_instances_of_the_groups_template_that_stay_are_not_outdated() -> None:
    described = group(
        instance("i-1", OLD),
        instance("i-2", NEW),
        instance("i-3", OLD, "Terminating:Wait"),
        instance("i-4", OLD, "Pending:Wait"),
    )
    assert read_group(described) == Group(instances=3, outdated=("i-1", "i-4"))
    assert read_group({"AutoScalingGroups": []}) is None
    assert read_refreshes({"InstanceRefreshes": []}) == []


def test_where_every_node_runs_from_the_template_nothing_is_started(
    refresh: Refresh, play: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = play(Cloud({"i-1": NEW, "i-2": NEW}))
    run(refresh)
    assert cloud.started == []
    assert "2 of 2 nodes run from its template" in capsys.readouterr().out


def test_outdated_nodes_are_replaced_within_the_bounds_and_progress_is_shown(
    refresh: Refresh, play: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = play(Cloud({"i-1": OLD, "i-2": NEW, "i-3": OLD}))
    run(refresh)
    ((_, name, _, preferences),) = cloud.started
    assert name == "slipway-prod-l4"
    assert '"MinHealthyPercentage": 100, "MaxHealthyPercentage": 110' in preferences
    assert '"SkipMatching": true' in preferences
    said = capsys.readouterr().out
    assert "2 of 3 nodes run from an earlier template" in said
    assert "1 left" in said
    assert "3 of 3 nodes run from its template" in said


def test_a_refresh_that_runs_already_is_followed_and_not_started_again(
    refresh: Refresh, play: Any
) -> None:
    cloud = play(Cloud({"i-1": OLD, "i-2": OLD}))
    running = {"InstanceRefreshId": "0", "Status": "InProgress", "InstancesToUpdate": 2}
    cloud.refreshes = [running]
    run(refresh)
    assert cloud.started == []
    assert set(cloud.templates) == {"i-1-new", "i-2-new"}


@pytest.mark.parametrize("ends", ["Failed", "Cancelled", "RollbackSuccessful"])
def test_a_refresh_that_aws_gives_up_stops_it_with_the_reason_and_the_next_one_goes_on(
    refresh: Refresh, play: Any, ends: str
) -> None:
    cloud = play(Cloud({"i-1": OLD, "i-2": OLD}, ends=ends))
    with pytest.raises(HostError, match=f"ended as {ends} at 0 %: i-1 did not join"):
        run(refresh)
    cloud.ends = "Successful"
    run(refresh)
    assert len(cloud.started) == 2
    assert set(cloud.templates) == {"i-1-new", "i-2-new"}


def test_a_refresh_that_replaces_nobody_is_an_error(refresh: Refresh, play: Any) -> None:
    cloud = play(Cloud({"i-1": OLD}))
    cloud._go_on = lambda: cloud.refreshes and cloud.refreshes[0].update(Status="Successful")
    with pytest.raises(HostError, match="ended as Successful"):
        run(refresh)


def test_a_failed_one_goes_on_where_old_nodes_leave_first_as_long_as_some_are_replaced(
    play: Any,
) -> None:
    refresh = read_refresh({**DOCUMENT, "min_healthy_percent": 90, "max_healthy_percent": 100})
    cloud = play(Cloud({"i-1": OLD, "i-2": OLD}, ends="Failed"))
    run(refresh)
    assert len(cloud.started) == 2
    assert set(cloud.templates) == {"i-1-new", "i-2-new"}


def test_a_group_that_is_not_there_is_said(refresh: Refresh, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        aws_command, "ask", lambda *_: {"AutoScalingGroups": [], "InstanceRefreshes": []}
    )
    with pytest.raises(HostError, match="no Auto Scaling group slipway-prod-l4"):
        run(refresh)


def test_a_wrong_document_is_refused() -> None:
    with pytest.raises(InputError, match="node-refresh"):
        read_refresh({key: DOCUMENT[key] for key in DOCUMENT if key != "group"})
