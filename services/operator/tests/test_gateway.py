"""The gateway before old replicas are removed: whether every Envoy knows the new ones."""

from __future__ import annotations

from typing import Any

import pytest
from gates.gateway import Gateway
from gates.model_job import ModelJob
from gates.replica_exchange import Exchange, GivenUpError
from program.http_json import Api, ApiError
from test_outages import Cluster

SERVICE = "model-m-all-grpc"
WANTED = {SERVICE: {"10.0.0.7:2000"}}


def endpoint(port: int, *, healthy: bool = True) -> dict[str, Any]:
    return {"address": "10.0.0.7", "port": port, "healthy": healthy}


def status(
    *endpoints: dict[str, Any], acknowledged: bool = True, envoys: tuple[str, ...] = ("edge-0",)
) -> dict[str, Any]:
    """What a control plane answers, as far as it is read here (schemas/status.schema.json)."""
    cluster = {
        "endpoints": list(endpoints),
        "acknowledged_by": dict.fromkeys(envoys, acknowledged),
    }
    return {
        "schema_version": 1,
        "envoys": [{"node": envoy} for envoy in envoys],
        "models": {"m": {"backends": [{"clusters": {SERVICE: cluster}}]}},
    }


def unknown(
    monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any] | ApiError, envoys: int = 1
) -> str | None:
    """What is unknown to control planes that answer with these."""
    planes = [Api(f"http://127.0.0.{at}:1") for at in range(len(answers))]
    answered = dict(zip((each.address for each in planes), answers, strict=True))

    def get(api: Api, path: str) -> Any:
        assert path == "/status"
        if isinstance(found := answered[api.address], ApiError):
            raise found
        return found

    monkeypatch.setattr("gates.gateway.control_planes", lambda _: planes)
    monkeypatch.setattr(Api, "get", get)
    return Gateway(Api(""), envoys).unknown_replicas(WANTED)


def test_a_replica_that_every_envoy_has_acknowledged_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = status(endpoint(1), endpoint(2000)), status(endpoint(2000), envoys=("edge-1",))
    assert unknown(monkeypatch, *both, envoys=2) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(endpoint(1)), f"the control plane has not seen 10.0.0.7:2000 of {SERVICE} healthy"),
        (status(endpoint(2000, healthy=False)), "the control plane has not seen 10.0.0.7:2000"),
        (
            status(endpoint(2000), acknowledged=False),
            f"Envoy edge-0 has not acknowledged the replicas of {SERVICE} yet",
        ),
        (status(endpoint(2000), envoys=()), "0 of 1 Envoys are connected to a control plane"),
        (status(endpoint(2000)) | {"models": {}}, "the control plane has not seen 10.0.0.7:2000"),
        (status(endpoint(2000)) | {"schema_version": 7}, "answers in schema_version 7"),
        (ApiError("GET /status: timed out"), "timed out"),
    ],
)
def test_whatever_may_not_know_it_is_named(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | ApiError, said: str
) -> None:
    assert said in (unknown(monkeypatch, answer) or "")


def test_a_document_of_before_asks_no_control_plane() -> None:
    assert Gateway(Api("http://127.0.0.1:1"), 0).unknown_replicas(WANTED) is None


class Unknowing(Gateway):
    """Does not know any replica for the first questions."""

    def __init__(self, questions: int) -> None:
        super().__init__(Api(""), 1)
        self.left = [questions]

    def unknown_replicas(self, addresses: Any) -> str | None:
        assert all(addresses.values()) or not any(addresses.values())
        self.left[0] -= 1
        return "Envoy edge-0 has not acknowledged" if self.left[0] >= 0 else None


def exchange(cluster: Cluster, gateway: Gateway) -> Exchange:
    new, old = ModelJob("model-m-1", cluster), ModelJob("model-m-0", cluster)
    return Exchange("m", new, [SERVICE], 2, [old], 60, cluster, gateway)


@pytest.mark.usefixtures("clock")
def test_no_old_replica_goes_while_an_envoy_does_not_know_the_new_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(silent=lambda _: False)
    with pytest.raises(GivenUpError, match="not ready after 60 s: Envoy edge-0 has not"):
        exchange(cluster, Unknowing(10_000)).run()
    assert cluster.counts == {"model-m-0": 2, "model-m-1": 2}
    assert "model m: Envoy edge-0 has not acknowledged\n" in capsys.readouterr().out


@pytest.mark.usefixtures("clock")
def test_the_exchange_goes_on_once_they_are_known() -> None:
    cluster = Cluster(silent=lambda _: False)
    exchange(cluster, Unknowing(5)).run()
    assert cluster.counts == {"model-m-0": 0, "model-m-1": 2}
