"""SSH host keys of machines that `up` creates: made once, kept, and never exchanged by accident."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.errors import CliError
from cli.hosts import host_keys
from components.aws_hosts.host_keys import public_key
from slipway.config.ssh import read_host_keys
from slipway.plan.platform import SshHost, SshPlan

KEY = "slipway:host_key_seed"
ADDRESSES = {"server-0": "10.40.0.4", "edge-0": "10.40.0.16"}
STACK = "config:\n  slipway:target: aws\n"


class Pulumi:
    """The commands that read and set a secret of the stack file."""

    def __init__(self, checkout: Path) -> None:
        self.environment = SimpleNamespace(checkout=checkout, name="prod")
        self.calls: list[tuple[str, ...]] = []
        self.seed = ""

    def output(self, *arguments: str, given: str | None = None) -> str:
        self.calls.append(arguments)
        assert arguments[-2:] == ("--stack", "prod")
        if given is not None:
            assert arguments[:4] == ("config", "set", "--secret", KEY)
            self.seed = given
            with (self.environment.checkout / "Pulumi.prod.yaml").open("a") as file:
                file.write(f"  {KEY}: {{secure: v1:x}}\n")
            return ""
        return f"{self.seed}\n"


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pulumi:
    (tmp_path / "Pulumi.prod.yaml").write_text(STACK)
    monkeypatch.setattr(host_keys, "load_inputs", lambda checkout, _: checkout)
    monkeypatch.setattr(host_keys, "make_plan", plan)
    return Pulumi(tmp_path)


def plan(checkout: Path, addresses: dict[str, str] = ADDRESSES, **changes: Any) -> Any:
    known = read_host_keys(checkout / "known_hosts")
    hosts = {
        name: SshHost(address=address, port=22, user="root", host_key=known.get(address, ""))
        for name, address in addresses.items()
    }
    settings = {"jump": None, "keys": (), "known_hosts": "known_hosts", "makes_host_keys": True}
    return SimpleNamespace(ssh=SshPlan(hosts=hosts, **{**settings, **changes}))


def test_the_first_up_makes_the_seed_and_every_hosts_key(pulumi: Pulumi) -> None:
    checkout = pulumi.environment.checkout
    made = host_keys.with_host_keys(pulumi, plan(checkout))
    assert len(pulumi.seed) >= 64
    assert {name: host.host_key for name, host in made.ssh.hosts.items()} == {
        name: public_key(pulumi.seed, "prod", name) for name in ADDRESSES
    }
    assert pulumi.seed not in json.dumps(pulumi.calls)  # not on a command line


def test_a_further_host_gets_one_and_the_others_keep_theirs(pulumi: Pulumi) -> None:
    checkout = pulumi.environment.checkout
    host_keys.with_host_keys(pulumi, plan(checkout))
    (checkout / "known_hosts").open("a").write("# by hand, without a line's end")
    before, seed = (checkout / "known_hosts").read_text(), pulumi.seed
    more = {**ADDRESSES, "edge-1": "10.40.32.17"}
    host_keys.with_host_keys(pulumi, plan(checkout, more))
    after = (checkout / "known_hosts").read_text()
    assert after.startswith(f"{before}\n")
    assert read_host_keys(checkout / "known_hosts")["10.40.32.17"] == public_key(
        seed, "prod", "edge-1"
    )
    assert pulumi.seed == seed


def test_nothing_is_asked_when_every_host_has_one(pulumi: Pulumi) -> None:
    checkout = pulumi.environment.checkout
    host_keys.with_host_keys(pulumi, plan(checkout))
    pulumi.calls.clear()
    complete = plan(checkout)
    assert host_keys.with_host_keys(pulumi, complete) is complete
    assert pulumi.calls == []


def test_no_key_is_made_of_machines_that_people_own(pulumi: Pulumi) -> None:
    listed = plan(pulumi.environment.checkout, makes_host_keys=False)
    assert host_keys.with_host_keys(pulumi, listed) is listed
    assert pulumi.calls == []


def test_a_lost_seed_is_not_replaced(pulumi: Pulumi) -> None:
    checkout = pulumi.environment.checkout
    host_keys.with_host_keys(pulumi, plan(checkout))
    (checkout / "Pulumi.prod.yaml").write_text(STACK)
    known = (checkout / "known_hosts").read_text()
    for addresses in (ADDRESSES, {**ADDRESSES, "edge-1": "10.40.32.17"}):
        with pytest.raises(CliError, match=f"{KEY} is missing") as error:
            host_keys.with_host_keys(pulumi, plan(checkout, addresses))
        assert "restore" in (error.value.fix or "")
    assert (checkout / "known_hosts").read_text() == known
