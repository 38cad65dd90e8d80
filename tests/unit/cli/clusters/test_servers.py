"""Which of several servers is asked."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from cli.clusters.consul import Consul
from cli.clusters.servers import must_answer
from cli.errors import CliError
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve

DEAD = f"http://{NETWORK}.9:8500"  # nothing listens there
LEADER = "GET /v1/status/leader"
MEMBERS = "GET /v1/agent/members"


def test_a_server_that_knows_a_leader_is_asked_before_one_that_does_not(serve: Serve) -> None:
    lost = serve({LEADER: (200, b'""'), MEMBERS: (200, [])})
    leading = serve({LEADER: (200, b'"10.0.0.1:8300"'), MEMBERS: (200, [{"Name": "server-0"}])})
    with Consul.of_any([DEAD, lost.address, leading.address], "a token", Path()) as consul:
        assert consul.members() == [{"Name": "server-0"}]
    assert leading.headers["X-Consul-Token"] == "a token"


def test_without_a_leader_the_first_is_asked_and_its_failure_is_explained() -> None:
    with (
        pytest.raises(CliError, match=r"Consul does not answer: .*; nothing was changed") as failed,
        Consul.of_any([DEAD, DEAD], None, Path()) as consul,
        must_answer("Consul", "nothing was changed"),
    ):
        consul.members()
    assert "slipway hosts" in failed.value.fix


def test_only_a_failed_request_is_explained() -> None:
    with pytest.raises(ZeroDivisionError), must_answer("Consul", "nothing was changed"):
        raise ZeroDivisionError
    with pytest.raises(CliError), must_answer("Nomad", "nothing was changed"):
        raise httpx.ReadTimeout("")
