"""Which hosts are asked for their Python, what is made for them, and which get it anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli.environment import Environment
from cli.hosts import answers, pythons
from cli.hosts.over_ssh import UnreachableError
from cli.hosts.pythons import make_packages
from cli.progress import Phases
from components.hosts import artifacts
from tests.components.test_devices import IN_CONTAINERS, planned
from tests.components.test_ssh_hosts import over_ssh
from tests.unit.plan.samples import ROOT
from toolchain.prepare import PackagesJob

HOSTS = {"server-0", "cpu-0", "cpu-1", "edge-0"}


@dataclass
class World:
    """The Python of each host that answers, which hosts were asked, and what was made."""

    pythons: Mapping[str, str]
    asked: set[str] = field(default_factory=set)
    made: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, host: str, _way: object, command: str, *, within_s: float) -> str:
        assert command.startswith("/usr/bin/python3 -c ")
        self.asked.add(host)
        if host not in self.pythons:
            raise UnreachableError(f"{host} does not answer", fix="")
        return f"{self.pythons[host]}\n"

    def prepare(self, jobs: Iterable[PackagesJob], *_: object) -> None:
        self.made += [(job.name, job.python) for job in jobs]


@contextmanager
def no_agent(_ssh: object) -> Iterator[dict[str, str]]:
    yield {}


def world(monkeypatch: pytest.MonkeyPatch, **of: str) -> World:
    made = World({host.replace("_", "-"): python for host, python in of.items()})
    monkeypatch.setattr(answers, "agent_for", no_agent)
    monkeypatch.setattr(answers, "known_way", lambda *_: {})
    monkeypatch.setattr(answers, "OverSsh", lambda **_: made)
    monkeypatch.setattr(pythons, "prepare", made.prepare)
    return made


def exported(**said: str) -> str:
    """A stack in which each host's delivery has ended with these words."""
    resources = [
        {
            "type": "command:local:Command",
            "urn": f"urn:pulumi:hosts::slipway::command::delivery-{host.replace('_', '-')}",
            "outputs": {"stdout": f"envs/xds (60 MiB)\n{host}: {words}"},
        }
        for host, words in said.items()
    ]
    return json.dumps({"deployment": {"resources": resources}})


def of_python(version: str) -> str:
    return f"has all of 7 artifacts, for Python {version}"


def make(stack: str, *again: str) -> set[str]:
    """For a plan in which only the hosts of the pool cpu have engines."""
    environment = Environment(name="hosts", checkout=ROOT, cache=Path("/nowhere"))
    return make_packages(environment, over_ssh(), stack, Phases(), again)


def test_new_hosts_are_asked_and_get_packages_for_what_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = world(monkeypatch, server_0="3.11", edge_0="3.12", cpu_0="3.11", cpu_1="3.11")
    assert make(exported()) == set()
    assert found.asked == HOSTS
    assert found.made == [("node", "3.12"), ("xds", "3.12")]


def test_hosts_that_have_the_python_of_the_environments_are_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Earlier versions said nothing of a Python: all their hosts had that one."""
    found = world(monkeypatch)
    before, now = "has all of 7 artifacts", of_python("3.11")
    assert make(exported(server_0=before, cpu_0=before, cpu_1=now, edge_0=now)) == set()
    assert found.asked == set()


def test_a_host_with_another_python_than_before_gets_its_packages_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = world(monkeypatch, server_0="3.10", edge_0="3.12")
    here = of_python("3.11")
    stack = exported(server_0=of_python("3.10"), cpu_0=here, cpu_1=here, edge_0=of_python("3.10"))
    assert make(stack) == {"edge-0"}
    assert found.asked == {"server-0", "edge-0"}
    assert found.made == [("node", "3.10"), ("node", "3.12"), ("xds", "3.12")]


def test_a_host_that_is_set_up_again_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = world(monkeypatch, edge_0="3.12")
    here = of_python("3.11")
    assert make(exported(server_0=here, cpu_0=here, cpu_1=here, edge_0=here), "edge-0") == {
        "edge-0"
    }
    assert found.asked == {"edge-0"}


@pytest.mark.parametrize("python", ["3.9", "3.13"])
def test_nothing_is_made_for_a_host_that_its_delivery_will_refuse(
    monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    """Also none with engines and another Python, and none that does not answer."""
    found = world(monkeypatch, server_0=python, cpu_0="3.10")
    assert make(exported()) == set()
    assert found.made == []


def test_what_images_use_is_made_for_every_python_they_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An image's Python is not known before the image is on a host."""
    found = world(monkeypatch)
    stack = exported(**dict.fromkeys(("server_0", "gpu_0", "edge_0"), of_python("3.11")))
    environment = Environment(name="hosts", checkout=ROOT, cache=Path("/nowhere"))
    make_packages(environment, planned(IN_CONTAINERS), stack, Phases())
    assert found.made == [("weights", "3.10"), ("weights", "3.12")]
    assert found.asked == set()
    make_packages(environment, planned({}), stack, Phases())
    assert len(found.made) == 2


def test_environments_are_found_among_artifacts_by_name() -> None:
    found = artifacts.environments(["bundles/xds-1a", "envs/vllm_cuda-2b", "tools/bin/nomad-1.11"])
    assert found == {"vllm_cuda": "vllm_cuda-2b"}
