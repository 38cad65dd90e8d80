"""What the control plane says of where keys go; tests/envoy/test_affinity.py asks an Envoy."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from control_plane.placement import maglev_table, placement, session_key, user_key
from control_plane.routing import LEAST_REQUEST, Endpoint, Routing, RoutingTable
from hypothesis import given
from hypothesis import strategies as st
from support.filter import Filter
from support.gateway import route

SCHEMA = json.loads((Path(__file__).parents[3] / "schemas/placement.schema.json").read_text())
SESSIONS = Routing(session_header="x-session-id", bound_percent=150)
OPENAI = "model-tiny-1-openai"
REPLICAS = tuple(
    Endpoint("10.0.0.1", 8000 + n, n != 2, f"model-tiny-1.replica[{n}]") for n in range(4)
)


def told(routing: Routing, key: str | None = None) -> dict[str, object]:
    model = route("tiny", routing=routing)
    document = placement(model, RoutingTable((model,), {OPENAI: REPLICAS}), key)
    jsonschema.validate(document, SCHEMA)
    (backend,) = document["backends"]
    return dict(backend)


def test_healthy_replicas_share_all_keys() -> None:
    backend = told(SESSIONS)
    shares = [each["share"] for each in backend["replicas"]]  # type: ignore[attr-defined]

    assert shares[2] is None
    assert sum(share for share in shares if share is not None) == pytest.approx(1, abs=0.001)
    assert backend["chosen"] == {}


def test_a_key_is_that_of_a_session_or_a_user_as_the_model_has_them() -> None:
    assert set(told(SESSIONS, "a")["chosen"]) == {"session", "user"}  # type: ignore[call-overload]
    assert set(told(Routing(key="user"), "a")["chosen"]) == {"user"}  # type: ignore[call-overload]
    only = Routing(key="session", session_header="x-session-id")
    assert set(told(only, "a")["chosen"]) == {"session"}  # type: ignore[call-overload]


def test_a_backend_without_requests_gets_no_key() -> None:
    model = route("tiny", "old", "new", weights={"old": 0}, routing=SESSIONS)
    endpoints = {"old-openai": REPLICAS, "new-openai": REPLICAS}

    old, new = placement(model, RoutingTable((model,), endpoints), "a")["backends"]

    assert (old["chosen"], set(new["chosen"])) == ({}, {"session", "user"})


def test_without_keys_there_are_no_shares() -> None:
    backend = told(LEAST_REQUEST, "a")

    assert backend["chosen"] == {}
    assert {each["share"] for each in backend["replicas"]} == {None}  # type: ignore[attr-defined]


def test_without_replicas_nobody_is_chosen() -> None:
    model = route("tiny", routing=SESSIONS)
    document = placement(model, RoutingTable((model,), {OPENAI: ()}), "a")

    assert document["backends"][0]["chosen"] == {}
    assert maglev_table(()) == []


@given(text=st.text(st.characters(exclude_characters='"\\', exclude_categories=("C",)), min_size=1))
def test_keys_are_those_of_the_gateways_filter(text: str) -> None:
    body = json.dumps({"model": "tiny", "user": text}, ensure_ascii=False).encode()

    assert FILTER.post(body).key == user_key("tiny", text)
    assert FILTER.post(body, x_session_id=text).key == session_key("tiny", text)


FILTER = Filter({"tiny": {"key": "user", "session_header": "x-session-id"}})
