"""The Auto Scaling group of a pool, which the bed plays: it starts and ends instances, waits for
them at the group's hooks, and replaces them in instance refreshes as AWS documents it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.aws_pool.names import JOINED_HOOK, LEFT_HOOK, group_name
from tests.aws.group_file import changing, group_file, read
from tests.hosts.aws_cloud import Cloud
from tests.hosts.environment import NAME
from tests.waiting import until

GOES_ON = ("Pending", "InProgress")


@dataclass(kw_only=True)
class Group:
    """`free`: names of hosts of the bed on which it may start instances. `most`: the most instances
    that have lived at once during a refresh."""

    cloud: Cloud
    pool: str
    free: list[str]
    hosts: dict[str, str] = field(default_factory=dict)  # instance -> host of the bed
    most: int = 0
    _started: int = 0
    # Its thread stays: the kernel ends a host with the thread that has started it.
    _player: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    @property
    def file(self) -> Path:
        return group_file(self.cloud.folder, group_name(NAME, self.pool))

    def node(self, instance: str) -> str:
        return f"{self.pool}-{instance.removeprefix('i-')}"

    def start(self) -> str:
        """An instance of the newest template, on a machine with an empty disk. Returns at once."""
        name = self.free.pop(0)
        self._started += 1
        instance = f"i-{self._started:017x}"
        bed = self.cloud.bed
        bed.hosts[name].end()
        host = bed.start(name)
        bed.wait_for(host)
        self.hosts[instance] = name
        with changing(self.file) as group:
            found = {"instance": instance, "version": group["version"], "state": "Pending:Wait"}
            group["instances"].append(found)
        self.cloud.open_lifecycle_action(instance, self.pool, JOINED_HOOK)
        self.cloud.boot(host, self.pool, instance)
        return instance

    def joined(self, instance: str) -> None:
        """Waits until the instance says that it has joined."""
        self._completed(instance, JOINED_HOOK)
        self._state(instance, "InService")

    def told_to_end(self, instance: str) -> None:
        """The instance is told to end, and waits until it has left. Returns at once."""
        host = self.cloud.bed.hosts[self.hosts[instance]]
        self._state(instance, "Terminating:Wait")
        self.cloud.open_lifecycle_action(instance, self.pool, LEFT_HOOK)
        self.cloud.terminate(host)

    def left(self, instance: str) -> None:
        """Waits until the instance says that it has left, and ends it."""
        self._completed(instance, LEFT_HOOK)
        self.ended(instance)

    def ended(self, instance: str) -> None:
        """As if its power was cut: EC2 waits for nobody."""
        name = self.hosts.pop(instance)
        self.cloud.bed.hosts[name].end()
        with changing(self.file) as group:
            staying = [each for each in group["instances"] if each["instance"] != instance]
            group["instances"] = staying
        self.free.append(name)

    @contextmanager
    def refreshing(self) -> Iterator[None]:
        """Plays the instance refresh that somebody starts meanwhile, until it has ended."""
        over = Future[None]()
        playing = self._player.submit(self._play, over)
        try:
            yield
        finally:
            over.set_result(None)
            playing.result()

    def _play(self, over: Future[None]) -> None:
        until(lambda: over.done() or self._refresh() is not None)
        refresh = self._refresh()
        if refresh is None:
            return
        try:
            self._replace(refresh)
        except BaseException as error:
            self._say(status="Failed", left=1, wanted=1, reason=repr(error))
            raise

    def _replace(self, refresh: dict[str, Any]) -> None:
        wanted = len(read(self.file)["instances"])
        spare = math.floor(wanted * refresh["Preferences"]["MaxHealthyPercentage"] / 100) - wanted
        while outdated := self._outdated():
            batch = outdated[: max(1, spare)]
            self._say(status="InProgress", left=len(outdated), wanted=wanted)
            if refresh["Preferences"]["MinHealthyPercentage"] == 100:
                self._replace_first(batch)
            else:
                self._leave_first(batch)
        self._say(status="Successful", left=0, wanted=wanted)

    def _replace_first(self, batch: list[str]) -> None:
        new = [self.start() for _ in batch]
        self.most = max(self.most, len(read(self.file)["instances"]))
        for instance in new:
            self.joined(instance)
        for instance in batch:
            self.told_to_end(instance)
        for instance in batch:
            self.left(instance)

    def _leave_first(self, batch: list[str]) -> None:
        for instance in batch:
            self.told_to_end(instance)
        for instance in batch:
            self.left(instance)
        for instance in [self.start() for _ in batch]:
            self.joined(instance)

    def _refresh(self) -> dict[str, Any] | None:
        found = [each for each in read(self.file)["refreshes"] if each["Status"] in GOES_ON]
        return found[-1] if found else None

    def _outdated(self) -> list[str]:
        group = read(self.file)
        return [e["instance"] for e in group["instances"] if e["version"] != group["version"]]

    def _say(self, *, status: str, left: int, wanted: int, reason: str = "") -> None:
        with changing(self.file) as group:
            group["refreshes"][-1].update(
                Status=status,
                InstancesToUpdate=left,
                PercentageComplete=100 * (wanted - left) // wanted,
                StatusReason=reason,
            )

    def _state(self, instance: str, state: str) -> None:
        with changing(self.file) as group:
            for each in group["instances"]:
                if each["instance"] == instance:
                    each["state"] = state

    def _completed(self, instance: str, hook: str) -> None:
        def said() -> bool:
            return any(
                each["call"] == "completion"
                and (each["instance"], each["hook"], each["result"]) == (instance, hook, "CONTINUE")
                for each in self.cloud.lifecycle()
            )

        until(said)
