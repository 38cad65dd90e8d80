"""An environment of a test bed's hosts, in a copy of the checkout, used as a person does."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx
import yaml
from tenacity import retry, retry_if_exception_type, stop_after_attempt

from cli import certificates
from cli.certificates import PublicTls
from tests.hosts.bed import Bed
from tests.live.environments import SIMULATED_ENGINE, copy_tree
from tests.waiting import HANG_S
from toolchain.settings import default_cache

NAME = "hosts"
CHANGED = re.compile(r"^ *\S+ +\S+:\S+ (\S+) (?:created|updated|replaced|deleted)\b", re.MULTILINE)
AT_ONCE = 4
PAUSE_S = 0.5  # after a stream that failed
ASKED_TIMES = 3
SHOWN = 300  # characters of an answer that a failing test shows


@dataclass(frozen=True)
class Checkout:
    """`inside` is how a command enters the network that the operator's machine is in."""

    folder: Path
    environ: dict[str, str]
    inside: tuple[str, ...] = ()

    @property
    def settings(self) -> Path:
        return self.folder / f"Pulumi.{NAME}.yaml"

    @property
    def operator(self) -> Path:
        """The folder of the operator's certificate."""
        return self.folder / ".slipway/access" / NAME / "operator"

    def put_workers(self, **workers: str) -> None:
        """Name -> address of the hosts in the pool of the model."""
        document = yaml.safe_load(self.settings.read_text())
        document["config"]["slipway:pools"]["cpu"]["hosts"] = listed(workers)
        self.settings.write_text(yaml.safe_dump(document))

    def put(self, setting: str, value: Any) -> None:
        """A setting of the environment's file."""
        document = yaml.safe_load(self.settings.read_text())
        document["config"][f"slipway:{setting}"] = value
        self.settings.write_text(yaml.safe_dump(document))

    def remove(self, setting: str) -> None:
        document = yaml.safe_load(self.settings.read_text())
        del document["config"][f"slipway:{setting}"]
        self.settings.write_text(yaml.safe_dump(document))

    def changed(self) -> set[str]:
        """The names of the resources that the last `up` changed."""
        return set(CHANGED.findall(self.log().rpartition("Updating (")[2]))

    @property
    def log_file(self) -> Path:
        return self.folder / ".slipway/pulumi" / f"{NAME}.log"

    def log(self) -> str:
        """The whole output of Pulumi in the last `up`; "" before it has begun."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @retry(
        retry=retry_if_exception_type(httpx.TransportError),
        stop=stop_after_attempt(ASKED_TIMES),
        reraise=True,
    )
    def ask(self, url: str) -> Any:
        """Consul's and Nomad's APIs as the operator. A server that is very busy closes connections
        that take long to open: a question is asked again."""
        return self._request("GET", url).json()

    def put_to(self, url: str) -> None:
        self._request("PUT", url)

    def post_to(self, url: str, body: Any) -> None:
        self._request("POST", url, body)

    def delete(self, url: str) -> None:
        self._request("DELETE", url)

    def _request(self, method: str, url: str, body: Any = None) -> httpx.Response:
        access = self.folder / ".slipway/access" / NAME
        tokens = {
            f"X-{system.title()}-Token": (access / "tokens" / system).read_text()
            for system in ("consul", "nomad")
        }
        verified = certificates.platform(self.operator)
        answer = httpx.request(
            method, url, headers=tokens, verify=verified, timeout=HANG_S, json=body
        )
        return answer.raise_for_status()

    @contextmanager
    def running(
        self, *arguments: str, errors: int = subprocess.STDOUT
    ) -> Iterator[subprocess.Popen[str]]:
        """A command while it runs; what it prints, its errors too unless they have a pipe of their
        own, is its stdout. A signal reaches its processes as one of a terminal does."""
        with subprocess.Popen(
            [*self.inside, "./slipway", *arguments, "-s", NAME],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def slipway(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.inside, "./slipway", *arguments, "-s", NAME],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return done


class Folders(Protocol):
    """pytest's factory of folders, or another one."""

    def mktemp(self, basename: str) -> Path: ...


@contextmanager
def environment(
    hosts: Bed,
    tmp_path_factory: Folders,
    *,
    models: Mapping[str, Mapping[str, int]],
    settings: Mapping[str, Any] | None = None,
    inside: tuple[str, ...] = (),
    files: Callable[[Path], None] = copy_tree,
) -> Iterator[Checkout]:
    """A checkout with an environment of the bed's hosts; taken down at the end.

    `models` are simulated ones, with their replicas; `settings` replace those of the file; commands
    run `inside` another network than this machine's; `files` puts a revision's files into a folder.
    """
    folder = tmp_path_factory.mktemp("checkout")
    files(folder)
    shutil.copy(hosts.known_hosts, folder / "known_hosts")
    _write(folder, hosts.key, models, settings or {})
    state = tmp_path_factory.mktemp("state")
    environ = {
        **os.environ,
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": f"a passphrase of a test, {uuid.uuid4().hex}",
        "PULUMI_HOME": str(tmp_path_factory.mktemp("pulumi")),
        "SLIPWAY_CACHE": str(default_cache()),
    }
    made = Checkout(folder, environ, inside)
    try:
        yield made
    finally:
        made.slipway("unprotect", check=False)
        made.slipway("down", "--yes", check=False)


@contextmanager
def changed_code(checkout: Checkout, file: str, before: str, after: str) -> Iterator[None]:
    """The checkout as a later version of the project."""
    path = checkout.folder / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    try:
        yield
    finally:
        path.write_text(text)


def must_complete(edge: str) -> None:
    """The model answers through the gateway at this address."""
    answer = httpx.post(
        f"http://{edge}:8080/v1/completions",
        json={"model": "sim-a", "prompt": "hi", "max_tokens": 4},
        timeout=HANG_S,
    )
    assert answer.raise_for_status().json()["choices"]


def must_know_a_capital(checkout: Checkout, edge: str, model: str) -> None:
    """A real model answers over both protocols, through the gateway at this address."""
    question = "What is the capital of France?"
    answer = httpx.post(
        f"http://{edge}:8080/v1/chat/completions",
        json={
            "model": model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": 16,
            "temperature": 0,
        },
        timeout=HANG_S,
    ).raise_for_status()
    assert "Paris" in answer.json()["choices"][0]["message"]["content"]
    assert "Paris" in checkout.slipway("chat", model, question, "--grpc").stdout


def listed(addresses: Mapping[str, str]) -> list[dict[str, str]]:
    """The hosts of a pool, or the servers, as the file lists them."""
    return [
        {"name": name.replace("_", "-"), "address": address} for name, address in addresses.items()
    ]


def _write(
    folder: Path,
    key: Path,
    models: Mapping[str, Mapping[str, int]],
    settings: Mapping[str, Any],
) -> None:
    """Pulumi.hosts.yaml with the key of the bed."""
    path = folder / f"Pulumi.{NAME}.yaml"
    document = yaml.safe_load(path.read_text())
    config = document["config"]
    config["slipway:ssh"]["key"] = str(key)
    config["slipway:models"] = {
        name: {"pool": "cpu", "replicas": dict(replicas)} for name, replicas in models.items()
    }
    config.update({f"slipway:{name}": value for name, value in settings.items()})
    path.write_text(yaml.safe_dump(document))
    for name in models:
        model = {"name": name, "engine": SIMULATED_ENGINE}
        (folder / f"models/{name}.yaml").write_text(yaml.safe_dump(model))


def client_of(edge: str, tls: PublicTls | None) -> httpx.Client:
    """A client of the gateway at this address, which keeps its connections."""
    scheme, trusted = ("https", tls.context()) if tls else ("http", True)
    return httpx.Client(
        base_url=f"{scheme}://{edge}:8080",
        timeout=HANG_S,
        verify=trusted,
        limits=httpx.Limits(keepalive_expiry=None),
    )


def by_name(tls: PublicTls | None) -> dict[str, str]:
    """What a request asks a gateway with a certificate for: by its name, not by its address."""
    return {"sni_hostname": tls.name} if tls else {}


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream that has ended; times by the monotonic clock."""

    began_s: float
    ended_s: float
    answer: str

    @property
    def failed(self) -> bool:
        return not self.answer.endswith("[DONE]")


@dataclass(kw_only=True)
class Streams:
    """Streams in the order of their ends."""

    ended: list[Stream]

    @property
    def answers(self) -> list[str]:
        return [each.answer for each in self.ended]

    @property
    def failed(self) -> list[str]:
        return [each.answer[-SHOWN:] for each in self.ended if each.failed]


@contextmanager
def streams(
    edge: str,
    *,
    model: str = "sim-a",
    tokens: int = 60,
    at_once: int = AT_ONCE,
    prompt: str = "hi",
    tls: PublicTls | None = None,
) -> Iterator[Streams]:
    """Streams through the gateway at this address, some at a time, each on a new connection. A
    prompt with `{}` is another for each, so that the gateway spreads them over all replicas."""
    streamed = Streams(ended=[])
    over, numbers = threading.Event(), itertools.count()

    def ask() -> str:
        words = prompt.format(next(numbers))
        body = {"model": model, "prompt": words, "max_tokens": tokens, "stream": True}
        try:
            with (
                client_of(edge, tls) as client,
                client.stream(
                    "POST", "/v1/completions", json=body, extensions=by_name(tls)
                ) as answer,
            ):
                return answer.read().decode().strip()
        except httpx.HTTPError as error:
            return repr(error)

    def ask_on() -> None:
        while not over.is_set():
            began_s = time.monotonic()
            answer = ask()
            stream = Stream(began_s=began_s, ended_s=time.monotonic(), answer=answer)
            streamed.ended.append(stream)
            if stream.failed:  # perhaps at once
                time.sleep(PAUSE_S)

    with ThreadPoolExecutor(at_once) as clients:
        asked = [clients.submit(ask_on) for _ in range(at_once)]
        try:
            yield streamed
        finally:
            over.set()
            wait(asked)
