from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from cli.clusters.served import Served
from cli.ui.front import front_page
from cli.ui.observation import Observation
from cli.ui.page import ModelRow, Tone
from tests.unit.cli.ui.observations import NOW_S, STATUS, count, observation, scaled


def changed(**parts: Any) -> Mapping[str, Any]:
    return {**STATUS, **parts}


def model(seen: Observation, name: str = "sim-a") -> ModelRow:
    rows = front_page(seen, "stopped").section("models").rows
    return next(row for row in rows if isinstance(row, ModelRow) and row.name == name)


def states(**told: bool) -> Mapping[str, Any]:
    return changed(
        models={**STATUS["models"], "sim-a": {"ready": True, "acknowledged": True} | told}
    )


@pytest.mark.parametrize(
    ("status", "wanted", "word", "tone"),
    [
        (STATUS, 1, "serves", Tone.OK),
        (STATUS, 2, "serves, short of replicas", Tone.WARN),
        (states(acknowledged=False), 1, "ready, not routed", Tone.WARN),
        (states(ready=False), 2, "starting", Tone.WARN),
        (states(ready=False), 1, "does not serve", Tone.BAD),
        (changed(unreachable={"xds": "refused"}), 1, "unknown", Tone.WARN),
    ],
)
def test_a_model_is_in_the_state_that_its_parts_tell(
    status: Mapping[str, Any], wanted: int, word: str, tone: Tone
) -> None:
    row = model(observation(status, counts=(count(wanted=wanted),)))
    assert (row.state.word, row.state.tone) == (word, tone)


def test_requests_in_flight_are_those_of_all_specs_of_a_model() -> None:
    assert model(observation()).in_flight == 5
    assert model(observation(), "smollm2").in_flight == 0


def test_without_envoy_nobody_knows_the_requests_in_flight() -> None:
    row = model(observation(changed(unreachable={"envoy": "refused"}, endpoints=[])))
    assert row.in_flight is None
    assert row.why == "kept: the autoscaler cannot see the load"


@pytest.mark.parametrize(
    ("flying", "why"),
    [
        (0, "0 in flight at 4 a replica: the minimum, 1"),
        (4, "4 in flight at 4 a replica call for 1"),
        (5, "5 in flight at 4 a replica call for 2"),
        (17, "17 in flight at 4 a replica call for 5: the maximum, 4"),
    ],
)
def test_a_count_is_explained_by_the_load_and_its_bounds(flying: int, why: str) -> None:
    (endpoint, *_) = STATUS["endpoints"]
    status = changed(endpoints=[endpoint | {"active_requests": flying}])
    assert model(observation(status)).why == why


def test_the_newest_word_of_the_autoscaler_is_told() -> None:
    events = (scaled(2, 3, ago_s=300), scaled(3, 2, ago_s=90))
    assert model(observation(counts=(count(events=events),))).why.endswith(
        "; scaled from 3 to 2, 1 min ago"
    )


def test_a_blind_autoscaler_keeps_the_count_and_is_a_notice() -> None:
    page = front_page(observation(changed(autoscaler_blind="no Envoy is scraped")), "stopped")
    (notice,) = page.section("notices").rows
    assert notice.id == "blind"
    assert model(observation(changed(autoscaler_blind="x"))).why.startswith("kept")


@pytest.mark.parametrize(("ttft_ms", "tone"), [(500.0, Tone.OK), (501.0, Tone.BAD)])
def test_a_latency_is_judged_by_its_goal(ttft_ms: float, tone: Tone) -> None:
    row = model(observation(served={"sim-a": Served(ttft_p95_ms=ttft_ms, tpot_p95_ms=9e9)}))
    assert (row.ttft.tone, row.ttft.goal) == (tone, "≤ 500 ms")
    assert (row.tpot.tone, row.tpot.goal) == (Tone.QUIET, "")


def test_a_figure_that_nobody_measured_is_no_zero() -> None:
    row = model(observation())
    assert (row.requests_per_s, row.ttft.text, row.ttft.tone) == ("-", "-", Tone.QUIET)


def test_a_model_that_does_not_serve_comes_first() -> None:
    models = {**STATUS["models"], "smollm2": {"ready": False, "acknowledged": False}}
    page = front_page(observation(changed(models=models)), "stopped")
    assert [row.id for row in page.section("models").rows] == ["model-smollm2", "model-sim-a"]
    assert page.headline.state.tone is Tone.BAD


def test_the_last_change_is_the_newest_of_specs_and_counts() -> None:
    seen = observation()
    assert front_page(seen, "").headline.last_change == "model-sim-a-3f9c1a was submitted 2 h ago"
    later = (scaled(1, 2, ago_s=600), scaled(2, None, ago_s=60, said="no change"))
    seen = dataclasses.replace(seen, counts=(count(events=later),))
    assert (
        front_page(seen, "").headline.last_change
        == "model-sim-a-3f9c1a was scaled from 1 to 2, 10 min ago"
    )


def test_a_job_that_was_scaled_was_not_submitted_by_anyone() -> None:
    seen = observation(counts=(count(events=(scaled(1, 2, ago_s=7200.4),)),))
    change = "model-sim-a-3f9c1a was scaled from 1 to 2, 2 h ago"
    assert front_page(seen, "").headline.last_change == change


def test_a_stopped_platform_says_what_brings_it_back() -> None:
    silent = changed(
        running=False, unreachable={"nomad": "refused"}, nodes=[], jobs=[], replicas=[]
    )
    page = front_page(observation(silent, counts=()), "stopped (slipway start)")
    assert page.headline.state.word == "stopped (slipway start)"
    assert page.section("nodes").rows == ()
    assert page.section("nodes").empty == "Nomad has none, or does not answer."
    assert [row.id for row in page.section("notices").rows] == ["silent-nomad"]


def test_a_host_in_trouble_is_a_notice_with_its_fix() -> None:
    trouble = {"host": "cpu-1", "what": "is down", "fix": "power it on"}
    page = front_page(observation(changed(troubles=[trouble])), "stopped")
    (notice,) = page.section("notices").rows
    assert (notice.text, notice.fix, notice.tone) == ("cpu-1 is down", "power it on", Tone.BAD)
    assert page.headline.state.tone is Tone.BAD


def test_a_replica_over_hosts_that_lacks_one_is_a_notice() -> None:
    group = {
        "job": "model-sim-a-3f9c1a",
        "number": 0,
        "wanted": True,
        "hosts": ["a", None],
        "missing": [{"rank": 1, "said": "has no host"}],
        "serves": False,
    }
    (notice,) = front_page(observation(changed(groups=[group])), "").section("notices").rows
    assert notice.text == "model-sim-a-3f9c1a, replica 0: rank 1 has no host"


def test_a_filter_keeps_the_rows_whose_names_contain_it() -> None:
    page = front_page(observation(), "stopped", "SIM-A")
    assert [row.id for row in page.section("models").rows] == ["model-sim-a"]
    assert page.section("models").summary == "2 of 2 ready"
    kind = front_page(observation(), "stopped", "node-")  # what IDs begin with is no name
    assert kind.section("nodes").rows == ()
    assert kind.section("nodes").empty == "None has “node-” in its name."


def test_the_page_does_not_change_because_seconds_pass() -> None:
    seen = observation()
    later = dataclasses.replace(seen, at_s=NOW_S + 30)
    assert front_page(seen, "") == front_page(later, "")
