"""An update has ended only when its servers are in Nomad's quorum."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from cli.hosts import after_update
from cli.hosts.after_update import wait_for_quorum

SERVERS = ("server-0", "server-1", "server-2")


def plan(*servers: str) -> Any:
    return SimpleNamespace(servers=[SimpleNamespace(name=name) for name in servers])


class Nomad:
    """Servers are voters after some looks; `dead` ones never."""

    def __init__(self, looks: int, dead: tuple[str, ...] = ()) -> None:
        self.looks, self.dead = looks, dead

    def voters(self) -> set[str]:
        self.looks -= 1
        return {"server-1", "server-2"} | ({"server-0"} if self.looks < 0 else set())

    def servers_named(self, host: str) -> list[dict[str, str]]:
        return [{"Name": f"{host}.global", "Status": "failed" if host in self.dead else "alive"}]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(after_update, "POLL_S", 0)


def test_a_new_server_is_waited_for_until_it_is_a_voter() -> None:
    nomad = Nomad(looks=3)
    both: Any = SimpleNamespace(nomad=nomad)
    wait_for_quorum(plan(*SERVERS), both)
    assert nomad.looks == -1


def test_a_server_that_does_not_live_is_not_waited_for() -> None:
    nomad = Nomad(looks=1000, dead=("server-0",))
    both: Any = SimpleNamespace(nomad=nomad)
    wait_for_quorum(plan(*SERVERS), both)
    assert nomad.looks == 999


def test_one_that_never_comes_ends_the_waiting_and_so_does_a_silent_cluster() -> None:
    nomad = Nomad(looks=10**9)
    both: Any = SimpleNamespace(nomad=nomad)
    wait_for_quorum(plan(*SERVERS), both, within_s=0)
    assert nomad.looks > 0

    def silent() -> set[str]:
        raise httpx.ConnectError("refused")

    both = SimpleNamespace(nomad=SimpleNamespace(voters=silent))
    wait_for_quorum(plan(*SERVERS), both)


def test_a_single_server_is_its_own_quorum() -> None:
    wait_for_quorum(plan("server-0"), SimpleNamespace())  # type: ignore[arg-type]
