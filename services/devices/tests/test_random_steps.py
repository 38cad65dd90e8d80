"""Whatever happens, no device is in two tasks, and every task sees its own devices only."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nomad_cluster import NomadCluster, devices_of, eventually, nomad_cluster

pytestmark = pytest.mark.binaries
STEPS = 60
DEVICES = 4  # of each of two hosts
# Devices of a replica, and the most replicas: together they always fit.
MODELS = {"one": (1, 1), "other": (1, 1), "pair": (2, 1), "twin": (2, 1)}


@dataclass
class Platform:
    cluster: NomadCluster
    counts: dict[str, int] = field(default_factory=dict)

    def scale(self, model: str, count: int) -> None:
        self.counts[model] = count
        self.cluster.submit(model, count=count, devices=MODELS[model][0])

    def kill_a_task(self, chance: random.Random) -> None:
        alive = sorted(self.alive())
        if alive:
            os.kill(chance.choice(alive), signal.SIGKILL)

    def kill_a_plugin(self, chance: random.Random) -> None:
        plugin = self.cluster.plugin(chance.choice(self.cluster.hosts))
        if plugin:
            os.kill(plugin, signal.SIGKILL)

    def restart_an_agent(self, chance: random.Random) -> None:
        host = chance.choice(self.cluster.hosts)
        assert host.process is not None
        host.process.kill()
        host.process.wait()
        self.cluster.start_agent(host)

    def alive(self) -> dict[int, str]:
        """The devices that each living task sees, by its process."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                variables = (folder / "environ").read_bytes().decode().split("\0")
            except OSError:  # it ended
                continue
            known = dict(each.partition("=")[::2] for each in variables)
            ours = known.get("NOMAD_TASK_DIR", "").startswith(str(self.cluster.root))
            if command == b"sleep\x003600\0" and ours:
                found[int(folder.name)] = known["CUDA_VISIBLE_DEVICES"]
        return found

    def check(self) -> None:
        """At any moment no two tasks see the same device; in the end all run as asked."""
        self.check_apart()
        for model, count in self.counts.items():
            for each in self.cluster.all_running(model, count):
                given = devices_of(each)
                assert len(given) == MODELS[model][0]
                assert self.cluster.environment(each)["CUDA_VISIBLE_DEVICES"].split(",") == given
        wanted = sum(self.counts.values())
        eventually("as many processes", lambda: len(self.alive()) == wanted or None)
        self.check_apart()

    def check_apart(self) -> None:
        seen = [uuid for devices in self.alive().values() for uuid in devices.split(",")]
        assert len(seen) == len(set(seen))


@pytest.fixture
def platform(nvml_library: Path, tmp_path: Path) -> Iterator[Platform]:
    with nomad_cluster(nvml_library, tmp_path, "127.93.0.", hosts=2, devices=DEVICES) as cluster:
        yield Platform(cluster)


def test_no_device_is_in_two_tasks_after_random_steps(platform: Platform) -> None:
    chance = random.Random(29)
    for model in MODELS:
        platform.scale(model, 1)
    platform.check()
    rare = (platform.kill_a_plugin, platform.restart_an_agent)
    for _ in range(STEPS):
        step = chance.choices(("scale", "kill", "rare"), weights=(5, 4, 1))[0]
        if step == "scale":
            model = chance.choice(list(MODELS))
            platform.scale(model, chance.randint(0, MODELS[model][1]))
        elif step == "kill":
            platform.kill_a_task(chance)
        else:
            chance.choice(rare)(chance)
        platform.check()
