"""Random sequences of what happens to groups in three pools, and what always holds meanwhile."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.hosts.accelerators import scale
from tests.hosts.bed import Bed
from tests.hosts.environment import Checkout, listed
from tests.hosts.groups import (
    MEMBERS,
    NOMAD,
    POOLS,
    SETTINGS,
    SILENCE_S,
    WORKERS,
    engines,
    formations,
    hosts_of_allocations,
    jobs,
    whole,
)
from tests.waiting import until

PLACES = {
    "sim-a": ("cpu", ("worker-0", "worker-1", "worker-2", "worker-3")),
    "sim-b": ("other", ("worker-4", "worker-5")),
    "sim-c": ("third", ("worker-6", "worker-7")),
}
MOST_GROUPS = {"sim-a": 2, "sim-b": 1, "sim-c": 1}
STEPS = ("scale", "kill", "drain", "cut", "up")
LOOK_S = 0.3


def settings() -> dict[str, object]:
    """Of an environment with a pool for each model."""
    pools = {
        pool: {**POOLS["cpu"], "hosts": listed({name: WORKERS[name] for name in hosts})}
        for pool, hosts in PLACES.values()
    }
    models = {
        model: {"pool": pool, "replicas": {"min": 1, "max": MOST_GROUPS[model]}, "surge": 0}
        for model, (pool, _) in PLACES.items()
    }
    return {**SETTINGS, "pools": {**pools, "edge": POOLS["edge"]}, "models": models}


@dataclass
class RandomGroups:
    """`groups` are those of each model that were asked for last."""

    checkout: Checkout
    hosts: Bed
    chance: random.Random
    groups: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLACES, 1))
    drained: set[str] = field(default_factory=set)
    cut_hosts: set[str] = field(default_factory=set)
    taken: list[str] = field(default_factory=list)  # what was done, for a failure's message

    def sequence(self) -> None:
        """Some steps that do not wait for each other, and then rest."""
        for _ in range(self.chance.randint(1, 3)):
            step = self.chance.choice(STEPS)
            self.taken.append(step)
            getattr(self, step)()
            time.sleep(self.chance.uniform(0, SILENCE_S + 2))  # before and after they notice
        self.mend()
        until(self.at_rest, f"rest after {self.taken}", pause_s=LOOK_S)

    def scale(self) -> None:
        model = "sim-a"  # the others' pools have room for one group
        self.groups[model] = self.chance.randint(1, MOST_GROUPS[model])
        scale(self.checkout, model, self.groups[model] * MEMBERS)

    def kill(self) -> None:
        if alive := engines():
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.chance.choice(alive).pid, signal.SIGKILL)

    def drain(self) -> None:
        """Nomad moves a member only while all others of its job run: not one of a pool that lacks
        another host."""
        host = self.chance.choice(list(WORKERS))
        (pool,) = [set(hosts) for _, hosts in PLACES.values() if host in hosts]
        if not pool & (self.cut_hosts | self.drained):
            self.drained.add(host)
            self.checkout.slipway("drain", host)

    def cut(self) -> None:
        host = self.chance.choice(list(WORKERS))
        if host not in self.cut_hosts | self.drained:
            self.cut_hosts.add(host)
            self.hosts.disconnect(host)

    def up(self) -> None:
        """A host that is cut off would be a reason to fail."""
        if not self.cut_hosts:
            self.checkout.slipway("up")

    def mend(self) -> None:
        for host in self.cut_hosts:
            self.hosts.connect_again(host)
        self.cut_hosts.clear()
        for host in self.drained:
            self.checkout.slipway("return", host)
        self.drained.clear()

    def at_rest(self) -> bool:
        """Every group is whole, as many as were asked for, and no engine is left of others."""
        found = {model: whole(self.checkout, model) for model in PLACES}
        if {model: len(groups) for model, groups in found.items()} != self.groups:
            return False
        expected = {group[0].group for groups in found.values() for group in groups}
        formed = formations()
        return set(formed) == expected and all(
            len(places) == MEMBERS and len(set(places)) == 1 for places in formed.values()
        )


@contextmanager
def always_whole_groups(checkout: Checkout) -> Iterator[list[str]]:
    """What was seen that must never be."""
    wrong, over, looks = list[str](), threading.Event(), list[int]()

    def look_on() -> None:
        while not over.wait(LOOK_S):
            with suppress(OSError):  # the server is not reached for a moment
                found = list(wrong_now(checkout))
                looks.append(len(found))
                wrong.extend(found)

    thread = threading.Thread(target=look_on)
    thread.start()
    try:
        yield wrong
    finally:
        over.set()
        thread.join()
    assert len(looks) > 10


def wrong_now(checkout: Checkout) -> Iterator[str]:
    """Counts that are no multiple of the members, groups in two pools, hosts in two groups, groups
    in two formations."""
    for model in PLACES:
        for job in jobs(checkout, model):
            group = checkout.ask(f"{NOMAD}/v1/job/{job}")["TaskGroups"][0]
            if group["Count"] % MEMBERS:
                yield f"the count of {job} is {group['Count']}"
    at = defaultdict[str, set[tuple[str, int]]](set)
    places = defaultdict[tuple[str, int], set[str]](set)
    running, host_of = engines(), hosts_of_allocations(checkout)
    for engine in running:
        host = host_of.get(engine.allocation, "")  # "" if it has just been placed
        at[host].add(engine.group)
        places[engine.group].add(engine.place)
        model = engine.group[0].removeprefix("model-").rpartition("-")[0]
        if host and host not in PLACES[model][1]:
            yield f"{engine} is in another pool, on {host}"
    yield from (f"{host} is in {groups}" for host, groups in at.items() if len(groups) > 1 and host)
    yield from (f"{group} is in {seen}" for group, seen in places.items() if len(seen) > 1)
