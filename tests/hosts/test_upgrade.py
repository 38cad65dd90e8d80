"""A running environment of an earlier revision, upgraded to this checkout while clients use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from bench.revisions import BEFORE_TURNS, extract, missing
from tests.hosts.asking import CUT, REFUSED, Request, asking, moments_in_common
from tests.hosts.bed import Bed
from tests.hosts.environment import Checkout, environment
from tests.hosts.two_edges import ADDRESSES, EDGES, SERVERS, SETTINGS, SHARED
from tests.live.upgrade import OPERATIONS, operations, replace_checkout
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

NOMAD = f"https://{SERVERS['server-0']}:4646"
REPLICAS = {"min": 2, "max": 2}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "sim-a": {"pool": "cpu", "replicas": REPLICAS},
    "sim-tight": {"pool": "cpu", "replicas": REPLICAS, "surge": 0},
}
# What may end: jobs whose code or documents have changed, and programs of hosts that have.
RESTARTED_JOBS = {f"{kind}-{edge}" for edge in EDGES for kind in ("xds", "envoy")}
RESTARTED_JOBS |= {f"envoy-{edge}-address" for edge in EDGES}
RESTARTED_JOBS |= {"prometheus", *(f"model-{model}" for model in MODELS)}
REPLACED = {f"Job model-{model}" for model in MODELS}
RESTARTED_UNITS = {
    f"slipway-hosts-{name}.service" for name in ("consul", "workload-keys", "log-collectors")
}
WAITED_FOR = ("xds-edge-0", "xds-edge-1", "envoy-edge-0", "envoy-edge-0-address")
CREATED = {f"Command {job}-serves" for job in WAITED_FOR}
MODELS_PATH, COMPLETIONS = "/v1/models", "/v1/completions"


Pair = tuple[dict[str, Any], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """`jobs` with their allocations and `units` with their processes are those before and those
    after it."""

    planned: dict[str, list[str]]
    changed: set[str]
    shared: list[list[Request]]  # of each client of the shared address
    own: dict[str, list[Request]]  # of a client of each edge's own address
    moves: int  # of the shared address
    jobs: Pair
    units: Pair


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    if reason := missing(BEFORE_TURNS):
        pytest.skip(reason)
    return ADDRESSES


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Of an environment that the earlier revision has brought up."""
    with environment(
        hosts,
        tmp_path_factory,
        models=dict.fromkeys(MODELS, REPLICAS),
        settings={**SETTINGS, "models": MODELS},
        files=partial(extract, BEFORE_TURNS),
    ) as made:
        made.slipway("up")
        yield made


@pytest.fixture(scope="module")
def upgrade(checkout: Checkout, hosts: Bed) -> Upgrade:
    jobs, units = jobs_of(checkout), units_of(hosts)
    own_files = [checkout.settings, checkout.folder / "known_hosts"]
    own_files += [checkout.folder / "models" / f"{model}.yaml" for model in MODELS]
    replace_checkout(checkout.folder, own_files)
    planned = operations(checkout.slipway("preview", "--json").stdout)
    moved = moves_until_now(hosts)
    with ExitStack() as clients:
        shared = [clients.enter_context(client) for client in of_the_shared_address()]
        own = {
            edge: clients.enter_context(asking(address, MODELS_PATH))
            for edge, address in EDGES.items()
        }
        checkout.slipway("up")
        # No gate waits for the last Envoy: the other one has the shared address.
        until(lambda: all(map(was_away, own.values())), "the restart of each Envoy")
    return Upgrade(
        planned=planned,
        changed=checkout.changed(),
        shared=shared,
        own=own,
        moves=moves_until_now(hosts) - moved,
        jobs=(jobs, jobs_of(checkout)),
        units=(units, units_of(hosts)),
    )


def of_the_shared_address() -> Iterator[Any]:
    """Clients that only connect; and of each model one with short answers, and two with streams, of
    which one takes several seconds."""
    yield asking(SHARED, MODELS_PATH)
    for model in MODELS:
        asked = {"model": model, "prompt": "hi", "max_tokens": 4}
        yield asking(SHARED, COMPLETIONS, asked)
        for tokens in (60, 600):
            streamed = {**asked, "max_tokens": tokens, "stream": True}
            yield asking(SHARED, COMPLETIONS, streamed, end="[DONE]")


def was_away(requests: Sequence[Request]) -> bool:
    """Whether a request that failed is followed by one that was answered."""
    failures = [bool(each.failure) for each in sorted(requests, key=lambda each: each.began)]
    return any(failures) and not failures[-1]


def moves_until_now(hosts: Bed) -> int:
    """How often a host has taken the shared address; on a slow machine it moves by itself, too."""
    logs = "/var/lib/slipway/hosts/nodes/*/nomad/data/alloc/*/alloc/logs/keepalived.std*"
    said = (hosts.hosts[edge].ssh(f"cat {logs}") for edge in EDGES)
    return sum(text.count("Entering MASTER STATE") for text in said)


def jobs_of(checkout: Checkout) -> dict[str, Any]:
    """Jobs -> their allocations that are to run, with the starts of their tasks."""
    found = dict[str, Any]()
    for each in checkout.ask(f"{NOMAD}/v1/allocations"):
        if each["DesiredStatus"] == "run":
            starts = {name: task["StartedAt"] for name, task in each["TaskStates"].items()}
            found.setdefault(each["JobID"], {})[each["ID"]] = starts
    return found


def units_of(hosts: Bed) -> dict[str, str]:
    """The first processes of the agents' units by host and unit."""
    found = dict[str, str]()
    for name, host in hosts.hosts.items():
        shown = host.ssh("systemctl show 'slipway-*.service' --property=Id,MainPID")
        for unit in shown.strip().split("\n\n"):
            properties = dict(line.split("=", 1) for line in unit.splitlines())
            found[f"{name} {properties['Id']}"] = properties["MainPID"]
    return found


def changed_between(states: Pair) -> set[str]:
    before, after = states
    return {name for name in before | after if before.get(name) != after.get(name)}


def test_only_models_are_replaced_and_nothing_is_deleted(upgrade: Upgrade) -> None:
    assert (set(upgrade.planned["replace"]), upgrade.planned["delete"]) == (REPLACED, [])
    assert set(upgrade.planned["create"]) == CREATED


def test_what_is_done_is_what_was_previewed(upgrade: Upgrade) -> None:
    previewed = {name for operation in OPERATIONS for name in upgrade.planned[operation]}
    assert {name.partition(" ")[2] for name in previewed} == upgrade.changed


def test_only_jobs_whose_code_or_documents_have_changed_restart(upgrade: Upgrade) -> None:
    changed = {of_any_generation(job) for job in changed_between(upgrade.jobs)}
    assert changed == RESTARTED_JOBS
    running = {of_any_generation(job) for job in upgrade.jobs[1]}
    assert {*RESTARTED_JOBS, "nomad-autoscaler"} <= running


def of_any_generation(job: str) -> str:
    return job.rpartition("-")[0] if job.startswith("model-") else job


def test_nomads_agents_run_on(upgrade: Upgrade) -> None:
    restarted = {name.partition(" ")[2] for name in changed_between(upgrade.units)}
    assert restarted == RESTARTED_UNITS
    assert "edge-0 slipway-hosts-nomad.service" in upgrade.units[1]


def test_no_new_request_is_refused(upgrade: Upgrade) -> None:
    assert all(upgrade.shared)
    refused = [each for client in upgrade.shared for each in client if REFUSED in each.failure]
    assert not refused


def test_only_what_was_being_answered_when_the_address_moved_fails(upgrade: Upgrade) -> None:
    """Where an Envoy of the earlier version had accepted it from its earlier control plane, it
    hears nothing."""
    failed = [each for client in upgrade.shared for each in client if each.failure]
    assert upgrade.moves > 0
    assert moments_in_common(failed) <= upgrade.moves, failed
    assert all(each.failure.startswith(CUT) for each in failed), failed


def test_at_any_time_one_of_the_edges_answers_at_its_own_address(upgrade: Upgrade) -> None:
    away = {
        edge: [each for each in requests if each.failure] for edge, requests in upgrade.own.items()
    }
    first, second = away["edge-0"], away["edge-1"]
    assert first
    assert second
    assert max(each.ended for each in first) < min(each.began for each in second)


def test_a_second_preview_is_empty(checkout: Checkout, upgrade: Upgrade) -> None:
    assert upgrade.changed
    checkout.slipway("preview", "--expect-no-changes")
