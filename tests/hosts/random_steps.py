"""Random steps that give devices to tasks and take them away, and what always holds meanwhile."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tests.hosts.accelerators import (
    MODELS,
    agents,
    allocations,
    change,
    engines,
    plugins,
    scale,
)
from tests.hosts.environment import Checkout
from tests.waiting import until

# How often each is taken: 60 steps in all.
STEPS = {
    "scale": 24,
    "kill_a_task": 22,
    "kill_a_plugin": 6,
    "kill_an_agent": 6,
    "up": 1,
    "up_with_a_change": 1,
}
SETTLES_EVERY = 20  # steps; those between two of these do not wait for each other


@dataclass
class RandomSteps:
    """`counts` are the replicas of each model that were asked for last."""

    checkout: Checkout
    chance: random.Random
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODELS, 1))

    def take(self) -> None:
        """All of them, in a random order."""
        for model, count in self.counts.items():
            scale(self.checkout, model, count)
        steps = [step for step, times in STEPS.items() for _ in range(times)]
        self.chance.shuffle(steps)
        for number, step in enumerate(steps):
            if number % SETTLES_EVERY == 0 or step.startswith("up"):
                self.settle()
            getattr(self, step)()
            check_apart()
        self.settle()

    def scale(self) -> None:
        model = self.chance.choice([name for name, model in MODELS.items() if model.most > 1])
        self.counts[model] = self.chance.randint(1, MODELS[model].most)
        scale(self.checkout, model, self.counts[model])

    def kill_a_task(self) -> None:
        self.kill([each.pid for each in engines()])

    def kill_a_plugin(self) -> None:
        self.kill(plugins())

    def kill_an_agent(self) -> None:
        self.kill(agents())

    def kill(self, alive: Sequence[int]) -> None:
        if alive:  # the last step may have killed the only one
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(self.chance.choice(alive), signal.SIGKILL)

    def up(self) -> None:
        self.checkout.slipway("up")

    def up_with_a_change(self) -> None:
        change(self.checkout, self.chance.choice(list(MODELS)), self.chance.randint(33, 64))
        self.checkout.slipway("up")

    def settle(self) -> None:
        """Waits until as many run as asked, each with as many devices as its model takes, of which
        its engine sees these and no others."""
        until(self._is_settled, f"{self.counts} replicas", pause_s=0.3)

    def _is_settled(self) -> bool:
        check_apart()
        found = {each.id: each for each in allocations(self.checkout)}
        counts = dict.fromkeys(MODELS, 0)
        for each in found.values():
            counts[each.model] += 1
            assert len(each.devices) == MODELS[each.model].devices
        seen = {each.allocation: each.devices for each in engines()}
        return (
            counts == self.counts
            and all(each.running for each in found.values())
            and seen == {each.id: each.devices for each in found.values()}
        )


def check_apart() -> None:
    """No device is seen by two engines."""
    seen = [uuid for each in engines() for uuid in each.devices]
    assert len(seen) == len(set(seen)), seen
