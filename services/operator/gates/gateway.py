"""The gateway as its control planes see it. They are found through Consul and asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from program.addresses import beside
from program.document import JsonObject
from program.http_json import Api, ApiError, operators

SERVICE = "xds-http"
STATUS_VERSIONS = (1,)  # of schemas/status.schema.json
ASK_TIMEOUT_S = 2


@dataclass(frozen=True)
class Gateway:
    """The control planes of an environment's Envoys. `envoys` is how many must be connected to
    them; 0 where a document does not say, and then nothing is asked."""

    consul: Api
    envoys: int

    def unknown_replicas(self, addresses: Mapping[str, set[str]]) -> str | None:
        """Which Envoy or control plane does not know all `addresses` ("host:port" by service) as
        healthy; None if all do. A control plane that does not answer counts as one that does not
        know."""
        if not self.envoys:
            return None
        try:
            answers = answers_of_all(self.consul, "/status", STATUS_VERSIONS)
        except ApiError as error:
            return str(error)
        if few := too_few(answers, self.envoys):
            return few
        return next((lag for answer in answers for lag in _lags(answer, addresses)), None)


def answers_of_all(consul: Api, path: str, versions: Sequence[int]) -> list[JsonObject]:
    """What each control plane answers. ApiError if one does not."""
    return [ask(each, path, versions) for each in control_planes(consul)]


def too_few(answers: Sequence[JsonObject], envoys: int) -> str | None:
    """Says how many Envoys are connected if fewer are than `envoys`."""
    connected = {envoy["node"] for answer in answers for envoy in answer["envoys"]}
    if len(connected) < envoys:
        return f"{len(connected)} of {envoys} Envoys are connected to a control plane"
    return None


def control_planes(consul: Api) -> list[Api]:
    """The control planes on nodes that are alive."""
    entries = consul.get(f"/v1/health/service/{SERVICE}?passing=1")
    addresses = (beside(consul.address, _authority(entry)) for entry in entries)
    return [operators(address, timeout_s=ASK_TIMEOUT_S) for address in addresses]


def ask(control_plane: Api, path: str, versions: Sequence[int]) -> JsonObject:
    """A control plane's answer. ApiError if it is in a version that this program does not know."""
    answer: JsonObject = control_plane.get(path)
    version = answer.get("schema_version")
    if version not in versions:
        raise ApiError(f"{control_plane.address} answers in schema_version {version}")
    return answer


def _lags(status: JsonObject, addresses: Mapping[str, set[str]]) -> Iterator[str]:
    clusters = {
        name: cluster
        for model in status["models"].values()
        for backend in model["backends"]
        for name, cluster in backend["clusters"].items()
    }
    for service, wanted in addresses.items():
        cluster = clusters.get(service, {"endpoints": [], "acknowledged_by": {}})
        known = {
            f"{each['address']}:{each['port']}" for each in cluster["endpoints"] if each["healthy"]
        }
        if unknown := sorted(wanted - known):
            yield f"the control plane has not seen {unknown[0]} of {service} healthy yet"
        for envoy, acknowledged in cluster["acknowledged_by"].items():
            if not acknowledged:
                yield f"Envoy {envoy} has not acknowledged the replicas of {service} yet"


def _authority(entry: JsonObject) -> str:
    service = entry["Service"]
    return f"{service['Address'] or entry['Node']['Address']}:{service['Port']}"
