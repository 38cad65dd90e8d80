"""Where the hosts of a test bed fetch weights from: a bucket and a model hub on this machine, which
each host finds on its loopback, as through a proxy of its site."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.hosts.accelerators import MODELS, NOMAD
from tests.hosts.bed import FOLDER
from tests.hosts.environment import Checkout
from toolchain.prepare import EnvironmentJob, prepare
from toolchain.settings import default_cache

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("serve_weights.py")
SERVICE = ROOT / "services/triton_vllm"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(kw_only=True)
class WeightSources:
    """`credentials` are the items of the Nomad variables that hosts need, by their names."""

    credentials: Mapping[str, Mapping[str, str]]
    ports: Mapping[str, int]
    server: subprocess.Popen[str]

    def authorizations(self) -> dict[str, list[str | None]]:
        """Of all requests for files so far, to the bucket and to the hub."""
        found: dict[str, list[str | None]] = _ask(self.server, "")
        return found

    @property
    def bucket(self) -> dict[str, Any]:
        """As a model file names it."""
        source = {"s3": "s3://models/tiny/", "revision": "1", "credentials": "models"}
        return source | {"endpoint": f"http://127.0.0.1:{self.ports['bucket']}"}

    @property
    def hub(self) -> dict[str, Any]:
        source = {"hf": "org/tiny", "revision": COMMIT, "credentials": "hub"}
        return source | {"endpoint": f"http://127.0.0.1:{self.ports['hub']}"}

    @property
    def canaries(self) -> dict[str, str]:
        """Name -> text of what nobody but the task that fetches may see."""
        return {
            f"{item} of {name}": text
            for name, items in self.credentials.items()
            for item, text in items.items()
        }


def planted_credentials() -> dict[str, dict[str, str]]:
    return {
        "models": {
            "access_key_id": f"AKIA{uuid.uuid4().hex.upper()}",
            "secret_access_key": f"secret-{uuid.uuid4().hex}",
        },
        "hub": {"token": f"hf_{uuid.uuid4().hex}"},
    }


def give_credentials(checkout: Checkout, sources: WeightSources) -> None:
    """As the operator does, before the models that need them are there."""
    for name, items in sources.credentials.items():
        path = f"slipway/credentials/{name}"
        checkout.post_to(f"{NOMAD}/v1/var/{path}", {"Path": path, "Items": items})


def write_models(checkout: Checkout, sources: WeightSources) -> None:
    """Puts MODELS into the checkout and its environment, with weights from bucket and hub in
    turn."""
    models = {}
    for (name, model), source in zip(
        MODELS.items(), itertools.cycle((sources.bucket, sources.hub)), strict=False
    ):
        engine = {"kind": "vllm", "architecture": "llama-3.1-8b", "max_model_len": 8192}
        parallel = {"tensor": model.devices}
        content = {"name": name, "source": source, "engine": engine, "parallel": parallel}
        (checkout.folder / f"models/{name}.yaml").write_text(yaml.safe_dump(content))
        # All devices may be taken: a changed model is exchanged replica by replica.
        replicas = {"min": 1, "max": model.most}
        models[name] = {"pool": "gpu", "replicas": replicas, "surge": 0}
    checkout.put("models", models)


@contextmanager
def weight_sources(hosts: Sequence[str]) -> Iterator[WeightSources]:
    """Reached from these hosts."""
    requirements = SERVICE / "requirements-test.txt"
    job = EnvironmentJob(name="triton_vllm-test", requirements=requirements)
    python = prepare([job], default_cache())[job.name] / "bin/python"
    credentials = planted_credentials()
    with ExitStack() as stack:
        server = stack.enter_context(
            subprocess.Popen(
                [python, PROGRAM],
                env={**os.environ, "PYTHONPATH": f"{SERVICE}/tests:{ROOT}/services/testing"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        places: dict[str, tuple[str, int]] = _ask(server, json.dumps(credentials))
        for host in hosts:
            stack.enter_context(_forwarded(host, places.values()))
        ports = {name: port for name, (_, port) in places.items()}
        yield WeightSources(credentials=credentials, ports=ports, server=server)


def _ask(server: subprocess.Popen[str], line: str) -> Any:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{line}\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


@contextmanager
def _forwarded(host: str, places: Iterable[tuple[str, int]]) -> Iterator[None]:
    """Ports of the host's loopback that lead to this machine, over SSH."""
    forwards = [text for address, port in places for text in ("-R", f"{port}:{address}:{port}")]
    with subprocess.Popen(
        [
            "ssh", "-F", str(FOLDER / "ssh_config"), "-o", "ExitOnForwardFailure=yes",
            *forwards, host, "echo ready; cat",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as connection:  # fmt: skip
        assert connection.stdout is not None
        assert connection.stdout.readline() == b"ready\n", f"{host} forwards nothing"
        yield
