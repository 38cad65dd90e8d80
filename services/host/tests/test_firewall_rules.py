"""The firewall of members: what its rules say, and what they leave alone."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from host.firewall import port_of_ssh
from host.firewall_rules import (
    Firewall,
    Ports,
    given_by_kernel,
    must_be_engines_only,
    read_firewall,
    rules,
)
from program.errors import HostError

USUAL = given_by_kernel("32768\t60999\n", "\n")
ALONE = Firewall(
    members=("10.77.0.21", "10.77.0.22"),
    clients=("10.77.0.31",),
    served_ports=(20000, 31999),
)
ON_A_FABRIC = dataclasses.replace(
    ALONE,
    control_interface="eno1",
    interfaces=("ens1f0", "ens2f0"),
    networks=("10.80.0.16/28",),
)


def chain(firewall: Firewall, control: Sequence[str] = ("eno1",)) -> list[str]:
    """The rules, in the order in which they are asked."""
    text = rules(firewall, "metal", USUAL, control)
    inside = text.partition("chain input {\n")[2].partition("\t}\n")[0]
    return [line.strip() for line in inside.splitlines()]


def test_only_members_reach_engines_and_only_clients_beside_them_reach_replicas() -> None:
    assert chain(ALONE) == [
        "type filter hook input priority filter; policy accept;",
        "tcp flags & (fin | syn | rst | ack) != syn accept",
        'iifname "lo" accept',
        "ip saddr { 10.77.0.21, 10.77.0.22 } accept",
        "tcp dport 20000-31999 ip saddr { 10.77.0.31 } accept",
        "tcp dport { 20000-31999, 32768-60999 } reject with tcp reset",
    ]


def test_members_come_over_the_interfaces_of_the_plan() -> None:
    assert chain(ON_A_FABRIC)[3:5] == [
        'iifname { "eno1" } ip saddr { 10.77.0.21, 10.77.0.22 } accept',
        'iifname { "ens1f0", "ens2f0" } ip saddr { 10.80.0.16/28 } accept',
    ]
    open_fabric = dataclasses.replace(ON_A_FABRIC, networks=())
    assert chain(open_fabric)[4] == 'iifname { "ens1f0", "ens2f0" } accept'


@pytest.mark.parametrize(
    ("interfaces", "stated", "expected"),
    [
        (("eno1",), "", ["ip saddr { MEMBERS } accept"]),
        (("eno1",), "eno1", ['iifname { "eno1" } ip saddr { MEMBERS } accept']),
        (("eno1",), "eno2", ['iifname { "eno1", "eno2" } ip saddr { MEMBERS } accept']),
        (
            ("eno1", "ens1f0"),
            "",
            ["ip saddr { MEMBERS } accept", 'iifname { "ens1f0" } accept'],
        ),
    ],
)
def test_only_members_come_over_an_interface_of_fabric_and_control_network(
    interfaces: tuple[str, ...], stated: str, expected: list[str]
) -> None:
    shared = dataclasses.replace(ALONE, interfaces=interfaces, control_interface=stated)
    members = ", ".join(ALONE.members)
    assert chain(shared)[3:-2] == [each.replace("MEMBERS", members) for each in expected]
    with_networks = dataclasses.replace(shared, networks=("10.80.0.16/28",))
    names = ", ".join(f'"{each}"' for each in interfaces)
    assert chain(with_networks)[4] == f"iifname {{ {names} }} ip saddr {{ 10.80.0.16/28 }} accept"


def test_new_rules_take_the_place_of_earlier_ones_in_one_transaction() -> None:
    assert rules(ALONE, "metal", USUAL).splitlines()[:3] == [
        "table inet slipway-metal",
        "delete table inet slipway-metal",
        "table inet slipway-metal {",
    ]


@pytest.mark.parametrize(
    ("reserved", "left"),
    [
        ("", ["32768-60999"]),
        ("40000", ["32768-39999", "40001-60999"]),
        ("50000-50009,40000", ["32768-39999", "40001-49999", "50010-60999"]),
        ("1024-32768", ["32769-60999"]),
        ("60000-65535,8080", ["32768-59999"]),
        ("40000-40009,40005-40019", ["32768-39999", "40020-60999"]),
        ("32768-60999", []),
    ],
)
def test_a_port_that_the_host_reserves_is_left_alone(reserved: str, left: list[str]) -> None:
    assert [str(each) for each in given_by_kernel("32768 60999", f"{reserved}\n")] == left


def test_a_range_that_holds_ports_of_the_platform_is_refused_with_the_setting() -> None:
    with pytest.raises(HostError, match=r"begins at 1024.*up to 31999\nfix: sysctl -w") as raised:
        must_be_engines_only([Ports(1024, 65535)], ALONE, None, reserved="\n")
    assert "net.ipv4.ip_local_reserved_ports=1024-31999" in str(raised.value)
    must_be_engines_only(
        given_by_kernel("1024 65535", "1024-31999"), ALONE, 22, reserved="1024-31999"
    )


def test_a_host_whose_ssh_would_be_closed_is_refused() -> None:
    with pytest.raises(HostError, match=r"SSH listens at 50022.*\nfix: .*reserved_ports=50022"):
        must_be_engines_only(USUAL, ALONE, 50022, reserved="\n")
    must_be_engines_only(given_by_kernel("32768 60999", "50022"), ALONE, 50022, reserved="50022")


def test_the_setting_that_mends_it_keeps_what_the_host_reserves_already() -> None:
    reserved = "8080,40000-40009\n"
    ssh = given_by_kernel("32768 60999", reserved)
    with pytest.raises(HostError, match=r"reserved_ports=8080,40000-40009,50022, and the same in"):
        must_be_engines_only(ssh, ALONE, 50022, reserved=reserved)
    wide = given_by_kernel("1024 65535", reserved)
    expected = r"reserved_ports=8080,40000-40009,1024-31999; and the same in"
    with pytest.raises(HostError, match=expected):
        must_be_engines_only(wide, ALONE, None, reserved=reserved)


@pytest.mark.parametrize("port", [20000, 22022, 31999])
def test_a_host_whose_ssh_has_a_port_of_nomads_is_refused(port: int) -> None:
    expected = rf"SSH listens at {port}.*\nfix: let sshd listen outside 20000-31999$"
    with pytest.raises(HostError, match=expected):
        must_be_engines_only(USUAL, ALONE, port, reserved="\n")
    for beside in (19999, 32000):
        must_be_engines_only(USUAL, ALONE, beside, reserved="\n")


def test_the_port_of_ssh_is_that_of_this_very_connection() -> None:
    assert port_of_ssh({"SSH_CONNECTION": "10.0.0.9 51812 10.77.0.21 2222"}) == 2222
    assert port_of_ssh({}) is None


def test_what_is_kept_on_disk_is_read_as_it_was_in_the_document() -> None:
    for each in (ALONE, ON_A_FABRIC):
        kept = json.loads(json.dumps(dataclasses.asdict(each)))
        assert read_firewall(kept) == each


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/usr/sbin/nft").exists(), reason="needs root and nftables"
)
@pytest.mark.parametrize("firewall", [ALONE, ON_A_FABRIC])
def test_nft_accepts_the_rules(firewall: Firewall) -> None:
    text = rules(firewall, "metal", USUAL)
    checked = subprocess.run(
        ["unshare", "--net", "/usr/sbin/nft", "--check", "-f", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
