"""A machine that was created just before is waited for; another one that does not answer is not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from delivery import main
from delivery.document import Delivery
from delivery.ssh import Place, UnreachableError
from program.errors import HostError

PLACE = Place(address="10.40.0.4", port=22, user="root", host_key="ssh-ed25519 AAAAC3Nz")
DELIVERY = Delivery(
    environment="prod",
    host="server-0",
    place=PLACE,
    jump=None,
    folder="/opt/slipway",
    python=(3, 11),
    artifacts=(),
    boots_within_s=900,
)
BOOTING = ("Connection refused", "Host key verification failed.", "Connection closed")


class Machine:
    """Answers each look with the next of these, then as a host that is there."""

    def __init__(self, *answers: str) -> None:
        self.answers = [*answers]
        self.looks = 0

    def look(self, *_: Any) -> str:
        self.looks += 1
        if self.answers:
            raise UnreachableError("server-0 (10.40.0.4)", self.answers.pop(0), "")
        return "found"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(main.time, "sleep", found.append)
    return found


def looked(machine: Machine, delivery: Delivery, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(main, "look", machine.look)
    return main._first_look(object(), delivery)  # type: ignore[arg-type]


def test_a_new_machine_is_looked_at_until_it_answers_with_its_own_key(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(*BOOTING)
    assert looked(machine, DELIVERY, monkeypatch) == "found"
    assert machine.looks == len(BOOTING) + 1
    assert slept.count(main.BETWEEN_LOOKS_S) == len(BOOTING)


def test_what_it_says_last_is_the_reason_when_the_time_is_up(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 300))
    monkeypatch.setattr("program.waiting.time.monotonic", lambda: next(clock))
    machine = Machine(*("Connection refused",) * 40)
    with pytest.raises(HostError, match="server-0 starts: gave up after 900 s: Connection refused"):
        looked(machine, DELIVERY, monkeypatch)


def test_a_machine_that_is_not_new_is_looked_at_once(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine("Connection refused")
    old = dataclasses.replace(DELIVERY, boots_within_s=0)
    with pytest.raises(UnreachableError):
        looked(machine, old, monkeypatch)
    assert (machine.looks, slept) == (1, [])


def test_what_a_machine_that_answers_lacks_is_not_waited_for(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: Any) -> None:
        raise HostError("server-0: no space left on device")

    monkeypatch.setattr(main, "look", look)
    with pytest.raises(HostError, match="no space"):
        main._first_look(object(), DELIVERY)  # type: ignore[arg-type]
    assert slept == []
