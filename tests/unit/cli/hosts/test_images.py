"""Which hosts are asked for the image of their pool, and which have lost it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli.environment import Environment
from cli.hosts import answers
from cli.hosts.images import hosts_without_image
from cli.hosts.over_ssh import UnreachableError
from cli.progress import Phases
from tests.components.test_devices import IMAGE, IN_CONTAINERS, planned
from tests.unit.plan.samples import ROOT

ENVIRONMENT = Environment(name="hosts", checkout=ROOT, cache=Path("/nowhere"))


@dataclass
class Hosts:
    """What each says that answers, and which were asked."""

    say: Mapping[str, str]
    asked: set[str] = field(default_factory=set)

    def ask(self, host: str, _way: object, command: str, *, within_s: float) -> str:
        assert IMAGE in command
        self.asked.add(host)
        if host not in self.say:
            raise UnreachableError(f"{host} does not answer", fix="")
        return f"{self.say[host]}\n"


def exported(*hosts: str) -> str:
    """A stack whose deliveries to these hosts have been."""
    urns = [f"urn:pulumi:hosts::slipway::command::delivery-{host}" for host in hosts]
    resources = [{"type": "command:local:Command", "urn": urn} for urn in urns]
    return json.dumps({"deployment": {"resources": resources}})


@contextmanager
def no_agent(_ssh: object) -> Iterator[dict[str, str]]:
    yield {}


def hosts(monkeypatch: pytest.MonkeyPatch, **say: str) -> Hosts:
    made = Hosts(say)
    monkeypatch.setattr(answers, "agent_for", no_agent)
    monkeypatch.setattr(answers, "known_way", lambda *_: {})
    monkeypatch.setattr(answers, "OverSsh", lambda **_: made)
    return made


@pytest.mark.parametrize(("says", "lost"), [("there", set()), ("gone", {"gpu-0"})])
def test_a_host_whose_image_has_gone_is_found(
    monkeypatch: pytest.MonkeyPatch, says: str, lost: set[str]
) -> None:
    found = hosts(monkeypatch, **{"gpu-0": says})
    stack = exported("server-0", "gpu-0", "edge-0")
    assert hosts_without_image(ENVIRONMENT, planned(IN_CONTAINERS), stack, Phases()) == lost
    assert found.asked == {"gpu-0"}


def test_a_host_that_does_not_answer_is_left_to_its_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts(monkeypatch)
    stack = exported("gpu-0")
    assert hosts_without_image(ENVIRONMENT, planned(IN_CONTAINERS), stack, Phases()) == set()


@pytest.mark.parametrize(
    ("runtime", "delivered"), [({}, ["gpu-0"]), (IN_CONTAINERS, [])], ids=["bare", "new"]
)
def test_hosts_without_containers_and_new_ones_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, runtime: dict[str, str], delivered: list[str]
) -> None:
    found = hosts(monkeypatch)
    stack = exported(*delivered)
    assert hosts_without_image(ENVIRONMENT, planned(runtime), stack, Phases()) == set()
    assert found.asked == set()
