"""What runs now, before it is known whether anything runs at all."""

from __future__ import annotations

import pytest

from cli.applied import from_document
from cli.clusters.nomad import Nomad, allocations_now
from cli.environment import Environment
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Reply, Serve
from tests.unit.cli.documents import plan_document

LEADER = {"GET /v1/status/leader": (200, b'"127.96.0.2:4647"')}


def test_an_environment_that_was_never_brought_up_or_is_stopped_has_none(
    environment: Environment,
) -> None:
    assert allocations_now(environment, None) is None
    assert allocations_now(environment, from_document(plan_document())) is None


@pytest.mark.parametrize(
    ("reply", "found"),
    [((200, [{"ID": "11"}]), [{"ID": "11"}]), ((403, b"Permission denied"), None)],
    ids=["it answers", "its first up was interrupted before there was a token"],
)
def test_a_cluster_with_a_leader_is_asked(
    environment: Environment, serve: Serve, reply: tuple[int, Reply], found: object
) -> None:
    server = serve({**LEADER, "GET /v1/allocations": reply}, address=f"{NETWORK}.2", port=4646)
    assert allocations_now(environment, from_document(plan_document())) == found
    assert server.asked[-1] == "GET /v1/allocations?resources=true"


def test_nodes_are_listed_with_their_devices(environment: Environment, serve: Serve) -> None:
    server = serve({"GET /v1/nodes": (200, [])}, address=f"{NETWORK}.2", port=4646)
    with Nomad.of(environment, from_document(plan_document())) as nomad:
        assert nomad.nodes() == []
    assert server.asked == ["GET /v1/nodes?resources=true"]
