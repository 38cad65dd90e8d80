"""TCP is measured for real, between two network namespaces: free, and with a limit of tc."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fabric.document import read_check
from fabric.findings import worst
from fabric.readings.tcp import TcpFigures, parse_tcp
from fabric.verdicts import judge
from hosts import CARD, Host, missing, two_hosts

from catalog import thresholds

PROGRAM = str(Path(__file__).parents[1] / "tcp_check.py")
SECONDS = "60"

pytestmark = [pytest.mark.binaries, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts() as hosts:
        yield hosts


@contextmanager
def listening(host: Host, peer: str) -> Iterator[str]:
    """The port."""
    command = host.command(sys.executable, PROGRAM, "listen", host.address, "0", peer, SECONDS)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def measured(source: Host, target: Host) -> TcpFigures:
    with listening(target, source.address) as port:
        command = (sys.executable, PROGRAM, "measure", source.address, target.address, port)
        return parse_tcp(source.run(*command))


def verdicts(source: Host, figures: str, rate_gbit_per_s: float) -> dict[str, str]:
    planned = {"kind": "tcp", "interface": CARD, "rate_gbit_per_s": rate_gbit_per_s}
    outputs = [{"tool": "tcp_check", "text": figures}]
    check = read_check(
        {
            "schema_version": 1,
            "planned": planned,
            "thresholds": thresholds("tcp"),
            "hosts": [],
            "pairs": [{"host": "one", "peer": "two", "outputs": outputs}],
        }
    )
    findings = judge(check.planned, check.thresholds, check.hosts, check.pairs)
    bandwidth = [each for each in findings if each.check == "bandwidth"]
    return {
        "all": worst(findings).value,
        "bandwidth": worst(bandwidth).value,
        "reason": next((each.reason for each in bandwidth if each.fix), ""),
    }


def test_a_limited_link_is_measured_within_15_percent_and_named(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    one.limit("200mbit")
    figures = measured(one, two)
    assert figures.gbit_per_s == pytest.approx(0.2, rel=0.15)
    text = json.dumps(vars(figures))
    found = verdicts(one, text, 10)
    assert found["bandwidth"] == "fail"
    assert found["reason"] == f"{CARD}: TCP {round(figures.gbit_per_s, 2):g} Gbit/s, at least 8"
    assert verdicts(one, text, 0.2)["bandwidth"] == "pass"


def test_a_link_that_is_limited_the_other_way_is_measured_within_15_percent_and_named(
    hosts: tuple[Host, Host],
) -> None:
    one, two = hosts
    two.limit("200mbit")
    figures = measured(one, two)
    received = figures.received_gbit_per_s
    assert received == pytest.approx(0.2, rel=0.15)
    assert figures.gbit_per_s > 0.2 * 1.15
    found = verdicts(one, json.dumps(vars(figures)), 0.3)
    assert (found["all"], found["bandwidth"]) == ("fail", "fail")
    said = f"{CARD}: TCP from the other host {round(received or 0, 2):g} Gbit/s, at least 0.24"
    assert found["reason"] == said


def test_a_free_link_has_more_than_the_limited_one_and_round_trips(
    hosts: tuple[Host, Host],
) -> None:
    one, two = hosts
    figures = measured(one, two)
    assert figures.gbit_per_s > 0.2 * 1.15
    assert 0 < figures.round_trip_median_us <= figures.round_trip_p99_us
    assert figures.retransmits is not None


def test_only_the_peer_is_answered(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    with listening(two, "10.250.77.9") as port:
        command = one.command(sys.executable, PROGRAM, "measure", one.address, two.address, port)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"from {one.address} to {two.address}" in done.stderr


def test_a_host_that_does_not_listen_is_an_error_with_its_address(
    hosts: tuple[Host, Host],
) -> None:
    one, two = hosts
    command = one.command(sys.executable, PROGRAM, "measure", one.address, two.address, "9")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{two.address} port 9" in done.stderr
