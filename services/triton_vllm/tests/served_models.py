"""A model that is served: by an object store (moto's S3) and by a model hub, both of which fail as
they are told."""

from __future__ import annotations

import hashlib
import json
import random
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import boto3
import requests
from flask import Flask, Response, jsonify, redirect, request
from hang import HANG_S
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ADDRESS = "127.92.0.7"
OTHER_ADDRESS = "127.92.0.6"  # where the hub keeps large files
PIECE_BYTES = 1 << 14
COMMIT = "0123456789abcdef0123456789abcdef01234567"
KEYS = {"access_key_id": "AKIAPLANTEDCANARY", "secret_access_key": "planted-canary-of-the-bucket"}
TOKEN = {"token": "hf_planted_canary_of_the_hub"}

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def model_content(shard_bytes: int = 300_000, shards: int = 4) -> dict[str, bytes]:
    """A transformers folder in four shards, with an index and two small files."""
    names = [f"model-{n:05}-of-{shards:05}.safetensors" for n in range(1, shards + 1)]
    weights = random.Random(29)
    index = {"weight_map": {f"layer.{n}": name for n, name in enumerate(names)}}
    return {
        "config.json": b'{"model_type": "llama"}',
        "tokenizer.json": b"{}" * 500,
        "model.safetensors.index.json": json.dumps(index).encode(),
        **{name: weights.randbytes(shard_bytes) for name in names},
    }


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def as_files(content: Mapping[str, bytes]) -> dict[str, Any]:
    """As a model file lists them."""
    return {name: {"bytes": len(data), "sha256": sha256(data)} for name, data in content.items()}


@dataclass(kw_only=True)
class Answer:
    """One answer of the server to a request for a file."""

    name: str
    start: int  # the first byte
    sent: int = 0
    authorization: str | None = None


@dataclass(kw_only=True)
class Faults:
    """What goes wrong with the answers to requests for files, each once, in this order. `hold`
    pauses everything after so many bytes, until it is set higher."""

    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    cut_after: list[int] = field(default_factory=list)  # bytes, then the connection ends
    flip: list[str] = field(default_factory=list)  # names of files with one flipped byte
    of_listings: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    hold: int | None = None
    refusal: str = "Told"  # the code of an answer that is an error


class Served:
    """`answers` are the requests for files, in their order."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.answers: list[Answer] = []
        self.listings = 0
        self.changed = threading.Condition()

    @property
    def sent(self) -> int:
        return sum(answer.sent for answer in self.answers)

    def wait_for_sent(self, size_bytes: int, timeout_s: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.sent >= size_bytes, timeout_s)

    def hold_after(self, size_bytes: int | None) -> None:
        with self.changed:
            self.faults.hold = size_bytes
            self.changed.notify_all()

    def sent_again(self) -> int:
        """Bytes of files that were sent more than once."""
        again = 0
        reached: dict[str, int] = {}
        for answer in self.answers:
            end = answer.start + answer.sent
            before = reached.get(answer.name, 0)
            again += max(0, min(end, before) - answer.start)
            reached[answer.name] = max(end, before)
        return again


class Faulty:
    """WSGI in between: counts what is sent, and lets it fail."""

    def __init__(self, app: App, served: Served, *, file: re.Pattern[str], listing: str) -> None:
        self._app, self._served, self._file, self._listing = app, served, file, listing

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        faults, path = self._served.faults, environ["PATH_INFO"]
        found = self._file.search(path)
        if found and environ["REQUEST_METHOD"] == "GET":
            if faults.statuses:
                return _status(*faults.statuses.pop(0), faults.refusal, start_response)
            return self._content(found[1], environ, start_response)
        if self._listing in path + "?" + environ["QUERY_STRING"]:
            self._served.listings += 1
            if faults.of_listings:
                return _status(*faults.of_listings.pop(0), faults.refusal, start_response)
        return self._app(environ, start_response)

    def _content(self, name: str, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        held: list[Any] = []
        body = self._app(environ, lambda *arguments: held.extend(arguments[:2]))
        content = b"".join(body)
        status, headers = held[0], held[1]
        if not status.startswith("2"):
            start(status, headers)
            return [content]
        faults = self._served.faults
        if name in faults.flip and content:
            faults.flip.remove(name)
            content = bytes([content[0] ^ 1]) + content[1:]
        begun = environ.get("HTTP_RANGE", "bytes=0-")
        answer = Answer(
            name=name,
            start=int(begun[6:].partition("-")[0]),
            authorization=environ.get("HTTP_AUTHORIZATION"),
        )
        self._served.answers.append(answer)
        length = [header for header in headers if header[0].lower() != "content-length"]
        start(status, [*length, ("content-length", str(len(content)))])
        cut = faults.cut_after.pop(0) if faults.cut_after else len(content)
        return self._pieces(content[:cut], answer)

    def _pieces(self, content: bytes, answer: Answer) -> Iterator[bytes]:
        served = self._served
        for at in range(0, len(content), PIECE_BYTES):
            with served.changed:
                served.changed.wait_for(
                    lambda: served.faults.hold is None or served.sent < served.faults.hold
                )
            piece = content[at : at + PIECE_BYTES]
            yield piece
            with served.changed:
                answer.sent += len(piece)
                served.changed.notify_all()


def _status(
    code: int, headers: dict[str, str], refusal: str, start_response: Callable[..., Any]
) -> list[bytes]:
    body = f"<Error><Code>{refusal}</Code><Message>as told</Message></Error>".encode()
    start_response(
        f"{code} Told",
        [*headers.items(), ("content-type", "application/xml"), ("content-length", str(len(body)))],
    )
    return [body]


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        # Small buffers: what the server counts as sent is what the client is about to read.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE_BYTES)
        super().setup()

    def log(self, *_: object) -> None:
        pass


@contextmanager
def _serving(address: str, app: App) -> Iterator[str]:
    server = make_server(address, 0, app, threaded=True, request_handler=_Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Store(Served):
    """A bucket "models" whose folder "tiny" has the model."""

    key = "source.s3"
    source: ClassVar = {"s3": "s3://models/tiny/", "revision": "1"}
    credentials = KEYS
    canary = KEYS["secret_access_key"]

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        self.endpoint = endpoint

    def put(self, content: Mapping[str, bytes], **options: Any) -> None:
        for name, data in content.items():
            self._client().put_object(Bucket="models", Key=f"tiny/{name}", Body=data, **options)

    def remove(self, name: str) -> None:
        self._client().delete_object(Bucket="models", Key=f"tiny/{name}")

    def create(self) -> None:
        self._client().create_bucket(Bucket="models")

    def _client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEYS["access_key_id"],
            aws_secret_access_key=KEYS["secret_access_key"],
        )


@contextmanager
def serving_store(content: Mapping[str, bytes], **options: Any) -> Iterator[Store]:
    moto = DomainDispatcherApplication(create_backend_app)
    store = Store("")
    file = re.compile("/models/tiny/(.+)")
    faulty = Faulty(moto, store, file=file, listing="list-type=2")
    with _serving(ADDRESS, faulty) as endpoint:
        store.endpoint = endpoint
        # moto keeps buckets in the memory of its process, which the stores of all tests share.
        requests.post(f"{endpoint}/moto-api/reset", timeout=HANG_S).raise_for_status()
        store.create()
        store.put(content, **options)
        store.listings = 0
        yield store


class Hub(Served):
    """A hub with one repository, "org/tiny". Large files are kept elsewhere, as the real one's."""

    key = "source.hf"
    source: ClassVar = {"hf": "org/tiny", "revision": COMMIT}
    credentials = TOKEN
    canary = TOKEN["token"]

    def __init__(self) -> None:
        super().__init__()
        self.endpoint = self.elsewhere = ""
        self.content: dict[str, bytes] = {}
        self.private = self.gated = False
        self.states_sizes = True

    def put(self, content: Mapping[str, bytes]) -> None:
        self.content |= content

    def remove(self, name: str) -> None:
        del self.content[name]

    def app(self) -> Flask:
        app = Flask("hub")

        @app.get("/api/models/org/<name>/revision/<revision>")
        def info(name: str, revision: str) -> Any:
            if refusal := self._refusal(name, revision):
                return refusal
            siblings = [_sibling(file, data) for file, data in self.content.items()]
            if not self.states_sizes:
                siblings = [{"rfilename": each["rfilename"]} for each in siblings]
            return jsonify({"id": "org/tiny", "sha": COMMIT, "siblings": siblings})

        @app.get("/org/<name>/resolve/<revision>/<path:file>")
        def resolve(name: str, revision: str, file: str) -> Any:
            if refusal := self._refusal(name, revision):
                return refusal
            if _is_large(file):
                return redirect(f"{self.elsewhere}/stored/{file}")
            return self._file(file)

        return app

    def stored(self) -> Flask:
        app = Flask("stored")
        app.add_url_rule("/stored/<path:file>", view_func=self._file)
        return app

    def _file(self, file: str) -> Response:
        if file not in self.content:
            return _refused(404, "EntryNotFound")
        response = Response(self.content[file])
        return response.make_conditional(
            request, accept_ranges=True, complete_length=len(self.content[file])
        )

    def _refusal(self, name: str, revision: str) -> Response | None:
        known = request.headers.get("Authorization") == f"Bearer {TOKEN['token']}"
        if self.gated:
            return _refused(403, "GatedRepo")
        if name != "tiny" or (self.private and not known):
            return _refused(401, "RepoNotFound")
        return None if revision == COMMIT else _refused(404, "RevisionNotFound")


def _is_large(name: str) -> bool:
    return name.endswith(".safetensors")


def _sibling(name: str, content: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    facts: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob}
    if _is_large(name):
        facts["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 134}
    return facts


def _refused(status: int, code: str) -> Response:
    return Response(status=status, headers={"X-Error-Code": code, "X-Error-Message": "as told"})


@contextmanager
def serving_hub(content: Mapping[str, bytes]) -> Iterator[Hub]:
    hub = Hub()
    hub.put(content)
    small = re.compile("/org/tiny/resolve/[0-9a-f]+/(.+(?<!safetensors))$")
    stored = Faulty(hub.stored(), hub, file=re.compile("/stored/(.+)"), listing="no listing")
    front = Faulty(hub.app(), hub, file=small, listing="/api/models/")
    with _serving(ADDRESS, front) as hub.endpoint, _serving(OTHER_ADDRESS, stored) as elsewhere:
        hub.elsewhere = elsewhere
        yield hub
