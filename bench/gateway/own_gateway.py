"""The gateway of a checkout: its Envoy and its control plane, fed by a real Consul."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.gateway.checkouts import Checkout, for_replicas
from bench.gateway.consul import Consul, consul, replica_name
from bench.gateway.contender import LeftOutError, Place, Running
from bench.gateway.processes import running
from bench.gateway.prometheus import prometheus
from bench.gateway.routes import NoSuchPolicyError, placed_by
from toolchain.prepare import EnvironmentJob, ToolJob, prepare

PORT, XDS_PORT, XDS_HTTP_PORT, METRICS_PORT = 8080, 18_000, 18_001, 9901
SERVICE = "model-peers-1"


class Programs:
    """What the gateway of a checkout is started with."""

    def __init__(self, checkout: Checkout, cache: Path) -> None:
        self.checkout = checkout
        requirements = checkout.folder / "services/xds/requirements.txt"
        tools = [ToolJob(name=name) for name in ("envoy", "consul", "prometheus")]
        found = prepare([EnvironmentJob(name="xds", requirements=requirements), *tools], cache)
        self.consul = found["consul"]
        self.prometheus = found["prometheus"]
        self._envoy = found["envoy"]
        self.python = found["xds"] / "bin/python"

    @contextmanager
    def control_plane(
        self, host: str, agent: Consul, log: Path, *, signals: str = ""
    ) -> Iterator[psutil.Popen]:
        """`signals` is the URL of the Prometheus from which it computes weights."""
        program = self.checkout.folder / "services/xds/xds.py"
        command: list[str | Path] = [self.python, program, "--consul", agent.url]
        command += ["--prometheus", signals] if signals else []
        ports = {"listen": XDS_PORT, "http": XDS_HTTP_PORT, "gateway": PORT}
        flags = (text for flag, port in ports.items() for text in (f"--{flag}", f"{host}:{port}"))
        with running([*command, *flags], log=log) as process:
            yield process

    @contextmanager
    def envoy(self, host: str, folder: Path, *, xds_port: int) -> Iterator[psutil.Popen]:
        """As the platform starts it, without the listener of its own metrics, which needs a
        certificate."""
        bootstrap = self.checkout.bootstrap(host, metrics_port=METRICS_PORT, xds_port=xds_port)
        bootstrap["static_resources"]["listeners"] = []
        with envoy(self._envoy, bootstrap, folder) as process:
            yield process


@contextmanager
def envoy(program: Path, bootstrap: Mapping[str, Any], folder: Path) -> Iterator[psutil.Popen]:
    """With as many workers as the platform's (components/gateway/jobs.py)."""
    config = folder / "envoy.json"
    config.write_text(json.dumps(bootstrap))
    command: list[str | Path] = [
        program,
        "--config-path",
        config,
        "--concurrency",
        "2",
        "--disable-hot-restart",
    ]
    command += ["--log-level", "warning"]
    with running(command, log=folder / "envoy.log", folder=folder) as process:
        yield process


@contextmanager
def weighing(programs: Programs, policy: str, place: Place) -> Iterator[Running]:
    """The gateway with weights of replicas by what a Prometheus scrapes from them."""
    targets = {replica_name(host): f"{host}:{port}" for host, port in place.replicas}
    with (
        prometheus(programs.prometheus, place.host, targets, place.folder) as signals,
        gateway(programs, policy, place, signals=signals) as started,
    ):
        yield started


@contextmanager
def gateway(
    programs: Programs, policy: str, place: Place, *, signals: str = ""
) -> Iterator[Running]:
    """Raises LeftOutError if the checkout does not have the policy."""
    route = for_replicas(programs.checkout.route(), SERVICE)
    try:
        document = placed_by(policy, route, programs.checkout.schema)
    except NoSuchPolicyError as error:
        raise LeftOutError(str(error)) from error
    with consul(programs.consul, place.host, place.folder) as agent:
        for host, port in place.replicas:
            agent.register(f"{SERVICE}-openai", host, port)
        agent.put_route(document)
        log = place.folder / "xds.log"
        with (
            programs.control_plane(place.host, agent, log, signals=signals) as xds,
            programs.envoy(place.host, place.folder, xds_port=XDS_PORT) as proxy,
        ):
            yield Running(address=(place.host, PORT), processes=(proxy, xds), log=log)
