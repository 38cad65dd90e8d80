"""A platform of HTTP servers that answer as the real ones do, and record all that reaches them."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cli.applied import Applied, from_document
from cli.environment import Environment
from tests.unit.cli.documents import model_document, plan_document, status_document

TOKEN = "a-management-token"
STARTED_NS = 1_795_956_212_765_429_207
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
PIECES = ("Paris", " is the", " capital <b>of</b>", " France.")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request that reached the platform."""

    server: str
    method: str
    path: str  # with its query
    headers: Mapping[str, str]


@dataclass(kw_only=True)
class FakePlatform:
    """Models serve with two replicas each, unless they are in `broken`."""

    models: list[str]
    broken: set[str] = field(default_factory=set)
    active: dict[str, int] = field(default_factory=dict)  # requests in flight
    seen: list[Seen] = field(default_factory=list)
    applied: Applied = field(init=False)

    def changing(self) -> list[Seen]:
        """The requests that could have changed something, chat aside."""
        return [
            each
            for each in self.seen
            if each.method not in {"GET", "HEAD"} and each.server != "gateway"
        ]

    def answer(self, server: str, method: str, path: str, body: bytes) -> Any:
        """A document, or None for an unknown path."""
        parts = urlsplit(path)
        place, query = unquote(parts.path), parse_qs(parts.query)
        answers: dict[str, Callable[..., Any]] = {
            "nomad": self._nomad,
            "consul": self._consul,
            "prometheus": self._prometheus,
            "envoy": self._envoy,
            "xds": self._xds,
        }
        return answers[server](place, query)

    def jobs(self) -> list[str]:
        return [f"model-{name}-3f9c1a" for name in self.models]

    def _nomad(self, place: str, query: Mapping[str, list[str]]) -> Any:
        if place == "/v1/jobs":
            return [self._job(name) for name in self.models]
        if place == "/v1/allocations":
            return [each for name in self.models for each in self._allocations(name)]
        if place == "/v1/nodes":
            # Those whose fabric did not pass its check are asked for by a filter: there are none.
            return [] if "filter" in query else [_node(f"cpu-{at}", at) for at in range(2)]
        if place == "/v1/agent/members":
            return {"Members": []}
        if place.endswith("/scale"):
            return {"TaskGroups": {"replica": {"Desired": 2, "Events": _EVENTS}}}
        if place.startswith("/ui"):
            return "<!doctype html><title>Nomad's page</title><p id=nomad>Nomad</p>"
        return None

    def _job(self, name: str) -> dict[str, Any]:
        running = 0 if name in self.broken else 2
        counts = {"Running": running, "Starting": 2 - running, "Queued": 0}
        return {
            "ID": f"model-{name}-3f9c1a",
            "Status": "running" if running else "pending",
            "Stop": False,
            "JobSummary": {"Summary": {"replica": counts}},
            "SubmitTime": STARTED_NS,
            "JobModifyIndex": 20,
            "Meta": {"slipway_model": name},
        }

    def _allocations(self, name: str) -> Iterator[dict[str, Any]]:
        for number in range(2):
            yield {
                "ID": f"{abs(hash((name, number))) % 16**8:08x}-cdcb-6edd-caf7-558cbbc4172f",
                "JobID": f"model-{name}-3f9c1a",
                "Name": f"model-{name}-3f9c1a.replica[{number}]",
                "NodeName": f"cpu-{number}",
                "ClientStatus": "pending" if name in self.broken else "running",
                "DesiredStatus": "run",
                "TaskStates": {},
            }

    def _consul(self, place: str, _query: Mapping[str, list[str]]) -> Any:
        if place.startswith("/ui"):
            return "<!doctype html><title>Consul's page</title><p id=consul>Consul</p>"
        return [] if place.startswith("/v1/catalog/") else None

    def _prometheus(self, place: str, query: Mapping[str, list[str]]) -> Any:
        if place == "/api/v1/targets":
            labels = {"service": "envoy-metrics"}
            target = {"labels": labels, "scrapeUrl": "http://e:9901/stats", "health": "up"}
            return {"data": {"activeTargets": [target]}}
        if place == "/api/v1/query":
            return {"data": {"result": [self._sample(name) for name in self.models]}}
        if place == "/api/v1/query_range":
            start, end = int(query["start"][0]), int(query["end"][0])
            values = [[at, str(at % 600)] for at in range(start, end + 1, int(query["step"][0]))]
            return {"data": {"result": [{"metric": {}, "values": values}]}}
        return None

    def _sample(self, name: str) -> dict[str, Any]:
        value = 1 + self.models.index(name) % 7 * 111.5
        return {"metric": {"model": name}, "value": [time.time(), str(value)]}

    def _envoy(self, _place: str, _query: Mapping[str, list[str]]) -> Any:
        clusters = [
            {
                "name": f"model-{name}-3f9c1a-openai",
                "host_statuses": [
                    {
                        "address": {
                            "socket_address": {"address": f"127.0.0.{2 + at}", "port_value": port}
                        },
                        "health_status": {"eds_health_status": "HEALTHY"},
                        "stats": [
                            {"name": "rq_active", "value": self.active.get(name, 0) * (1 - at)}
                        ],
                    }
                    for at in range(2)
                ],
            }
            for port, name in enumerate(self.models, start=20_000)
            if name not in self.broken
        ]
        return {"cluster_statuses": clusters}

    def _xds(self, _place: str, _query: Mapping[str, list[str]]) -> Any:
        states = {
            name: {"ready": name not in self.broken, "acknowledged": name not in self.broken}
            for name in self.models
        }
        return status_document(states)


_EVENTS = [
    {
        "Time": STARTED_NS + 60_000_000_000,
        "Count": 2,
        "PreviousCount": 1,
        "Message": "scaling up because metric is 2",
        "Error": False,
    }
]


def _node(name: str, number: int) -> dict[str, Any]:
    return {
        "ID": f"node-{number}",
        "Name": name,
        "NodePool": "cpu",
        "Address": f"127.0.0.{2 + number}",
        "Status": "ready",
        "SchedulingEligibility": "eligible",
        "CreateIndex": number,
        "Version": "1.11.3",
        "Drain": False,
    }


@contextmanager
def running(models: list[str], folder: Path) -> Iterator[tuple[FakePlatform, Environment]]:
    """A platform with these models, and the environment of its operator below `folder`."""
    platform = FakePlatform(models=models)
    with ExitStack() as stack:
        ports = {
            name: stack.enter_context(_server(platform, name))
            for name in ("nomad", "consul", "prometheus", "envoy", "xds", "gateway")
        }
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        document = plan_document() | {"models": [_model(name) for name in models]}
        platform.applied = dataclasses.replace(
            from_document(document),
            gateway_http=urls["gateway"],
            nomad=urls["nomad"],
            consul=urls["consul"],
            prometheus=urls["prometheus"],
            envoy_metrics=(urls["envoy"],),
            xds=(urls["xds"],),
        )
        environment = Environment(name="dev", checkout=folder, cache=folder / "cache")
        tokens = environment.run / "tokens"
        tokens.mkdir(parents=True)
        for api in ("nomad", "consul"):
            (tokens / api).write_text(TOKEN)
        yield platform, environment


def _model(name: str) -> dict[str, Any]:
    document = model_document(name, "sim")
    document["goal"] = {"ttft_p95_ms": 500, "tpot_p95_ms": 500}
    document["releases"][0]["scaling"] = {
        "min_replicas": 1,
        "max_replicas": 4,
        "target_inflight_per_replica": 8,
        "cooldown_s": 60,
    }
    return document


@contextmanager
def _server(platform: FakePlatform, name: str) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer is sent at once: in parts, each would wait for the last one's ACK

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {key.lower(): value for key, value in self.headers.items()}
            platform.seen.append(
                Seen(server=name, method=self.command, path=self.path, headers=headers)
            )
            if name == "gateway":
                self._stream()
                return
            answer = platform.answer(name, self.command, self.path, body)
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send_response(404 if answer is None else 200)
            kind = "text/html" if isinstance(answer, str) else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Set-Cookie", "upstream=1")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text.encode())
            self.wfile.flush()

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for piece in PIECES:
                event = {"choices": [{"delta": {"content": piece}}]}
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            usage = {"choices": [], "usage": {"completion_tokens": 12}}
            self.wfile.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    for method in METHODS:
        setattr(Handler, f"do_{method}", Handler.handle_any)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
