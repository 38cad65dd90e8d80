"""Devices that turn bad under streams, and what it takes until their replicas are elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack
from dataclasses import dataclass

from tests.hosts.accelerators import (
    EDGE,
    GPUS,
    MODELS,
    NOMAD,
    Replica,
    agents,
    allocations,
    answering,
    breaks,
    health,
    job_of,
    plugins,
    replicas,
    scale,
    task_processes,
)
from tests.hosts.bed import Bed
from tests.hosts.environment import Checkout, Streams, streams
from tests.waiting import until

TOKENS = 200  # of a stream, which takes two seconds
STREAMED = ("one", "other", "pair")
WAITS = "waits for another place: "


@dataclass(frozen=True, kw_only=True)
class Move:
    """A replica that left a device which turned bad. Moments of the monotonic clock: the fault,
    when Nomad's servers knew of it, when the replica was said to wait, when there was a place for
    it, and when its successor answered there.

    `waited_for` is what was said, empty if there was a place at once. `streamed` are the streams
    meanwhile, by model. `gone` are the allocations that have ended, `ended` those of which a
    task's process has, and `restarted` Nomad's agents and plugins that have.
    """

    model: str
    left: str  # its allocation
    fault_s: float
    unhealthy_s: float
    waits_s: float
    place_s: float
    answers_s: float
    waited_for: str
    streamed: Mapping[str, Streams]
    gone: frozenset[str]
    ended: frozenset[str]
    restarted: frozenset[int]


def leave_for_a_spare_device(checkout: Checkout, hosts: Bed) -> Move:
    """One of two replicas of a model, while a device is free."""
    scale(checkout, "one", 2)
    until(lambda: is_settled(checkout, {"one": 2}))
    return _move(checkout, hosts, "one", waits=lambda: "", make_room=lambda: None)


def leave_once_a_device_is_free(checkout: Checkout, hosts: Bed) -> Move:
    """The only replica of a model, after `leave_for_a_spare_device`: one of another model makes
    room."""

    def make_room() -> None:
        before = _ids(checkout)
        scale(checkout, "one", 1)
        until(lambda: before - _ids(checkout))

    return _move(
        checkout,
        hosts,
        "other",
        waits=lambda: until(lambda: _waits_for(checkout)),
        make_room=make_room,
    )


def ask_for_a_replica_too_many(checkout: Checkout) -> set[str]:
    """After `leave_once_a_device_is_free`: the devices that are taken once Nomad has found no place
    for it."""
    scale(checkout, "one", 2)
    until(lambda: _queued(checkout, "one") == 1)
    return {uuid for each in allocations(checkout) for uuid in each.devices}


def trust_again(checkout: Checkout) -> None:
    """All devices of all hosts."""
    for host in GPUS:
        checkout.slipway("return", host)
    until(lambda: all(health(checkout).values()))


def is_settled(checkout: Checkout, more: Mapping[str, int]) -> bool:
    """Whether one replica of each model answers, or as many as given, and no other one is left."""
    found = list(allocations(checkout))
    counts = dict.fromkeys(MODELS, 0)
    for each in found:
        counts[each.model] += 1
    wanted = {name: more.get(name, 1) for name in MODELS}
    return counts == wanted and answering(checkout) == {each.id for each in found}


def _move(
    checkout: Checkout,
    hosts: Bed,
    model: str,
    *,
    waits: Callable[[], str],
    make_room: Callable[[], None],
) -> Move:
    left = next(each for each in replicas(checkout) if each.model == model)
    (device,) = left.devices
    before, tasks, others = _ids(checkout), set(task_processes()), {*agents(), *plugins()}
    with ExitStack() as stack:
        streamed = {
            name: stack.enter_context(streams(EDGE, model=name, tokens=TOKENS)) for name in STREAMED
        }
        until(lambda: all(each.ended for each in streamed.values()))
        fault_s = time.monotonic()
        breaks(hosts, device)
        until(lambda: not health(checkout)[device])
        unhealthy_s = time.monotonic()
        waited_for, waits_s = waits(), time.monotonic()
        make_room()
        place_s = time.monotonic()
        until(lambda: _successor(checkout, model, before))
        answers_s = time.monotonic()
        until(lambda: left.id not in _ids(checkout))
        so_far = {name: len(each.ended) for name, each in streamed.items()}
        until(lambda: all(len(each.ended) > so_far[name] for name, each in streamed.items()))
    return Move(
        model=model,
        left=left.id,
        fault_s=fault_s,
        unhealthy_s=unhealthy_s,
        waits_s=waits_s,
        place_s=place_s,
        answers_s=answers_s,
        waited_for=waited_for,
        streamed=streamed,
        gone=frozenset(before - _ids(checkout)),
        ended=frozenset(each.allocation for each in tasks - set(task_processes())),
        restarted=frozenset(others - {*agents(), *plugins()}),
    )


def _ids(checkout: Checkout) -> set[str]:
    return {each.id for each in allocations(checkout)}


def _successor(checkout: Checkout, model: str, before: Set[str]) -> Replica | None:
    """A replica of the model that has come since then and answers."""
    new = [each for each in replicas(checkout) if each.model == model and each.id not in before]
    ready = answering(checkout) if new else set()
    return next((each for each in new if each.id in ready), None)


def _waits_for(checkout: Checkout) -> str:
    """What the job that moves replicas says last, if it waits."""
    said = checkout.slipway("logs", "device-evacuation", check=False).stdout
    lines = [line for line in said.splitlines() if WAITS in line]
    return lines[-1] if lines else ""


def _queued(checkout: Checkout, model: str) -> int:
    """Replicas that Nomad has no place for."""
    summary = checkout.ask(f"{NOMAD}/v1/job/{job_of(checkout, model)}/summary")
    return int(summary["Summary"]["replica"]["Queued"])
