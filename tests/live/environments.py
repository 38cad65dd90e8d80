"""An environment in a copy of the checkout, used through the `slipway` command like a user's."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from cli import certificates
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[2]
COMMAND_HANG_S = 900

SIMULATED_ENGINE = {
    "kind": "sim",
    "architecture": "llama-3.1-8b",
    "profile": "h100-fp8-llama-3.1-8b",
    "max_model_len": 8192,
    "max_num_seqs": 32,
}
# Few tokens per second: the tests must not take the processor from what they observe.
SLOW_ANSWERS = {"engine_args": {"time_scale": 4}}


class CommandError(AssertionError):
    """A `slipway` command ended with an exit code other than 0."""


@dataclasses.dataclass(frozen=True)
class Platform:
    """One environment. `prefix` goes before every command, `variables` are its whole environment
    (None: this process's own)."""

    checkout: Path
    name: str
    network: str = "127.78.0"  # the first three numbers of its addresses
    first_up: dict[str, Any] = dataclasses.field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None

    def command(self, *arguments: str) -> list[str]:
        verb, *rest = arguments
        return [*self.prefix, str(self.checkout / "slipway"), verb, "-s", self.name, *rest]

    @property
    def environ(self) -> dict[str, str] | None:
        """The whole environment of a command, for subprocess; None for this process's own."""
        return None if self.variables is None else dict(self.variables)

    def slipway(
        self, *arguments: str, check: bool = True, timeout_s: float = COMMAND_HANG_S
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            self.command(*arguments),
            cwd=self.checkout,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and result.returncode:
            raise CommandError(
                f"slipway {' '.join(arguments)}: exit {result.returncode}\n"
                f"{result.stdout[-3000:]}\n{result.stderr[-6000:]}"
            )
        return result

    def up(self) -> dict[str, Any]:
        """The report of a completed `up`."""
        return last_json_line(self.slipway("up", "--json").stdout)

    def down(self) -> None:
        self.slipway("down", "--yes")

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.slipway("status", "--json").stdout)
        return document

    @property
    def run(self) -> Path:
        return self.checkout / ".slipway" / self.name

    @property
    def http(self) -> str:
        return str(self.first_up["gateway"]["http"])

    @property
    def grpc(self) -> str:
        return str(self.first_up["gateway"]["grpc"])

    def edge(self, port: int) -> str:
        """The URL of what listens beside the gateway, for those with a certificate."""
        return f"https://{self.http.removeprefix('http://').rpartition(':')[0]}:{port}"

    def edit_model(self, model: str, **engine: Any) -> None:
        """Change keys of a model's `engine:` section."""
        path = self.checkout / "models" / f"{model}.yaml"
        document = yaml.safe_load(path.read_text())
        document["engine"].update(engine)
        path.write_text(yaml.safe_dump(document))

    def token(self, api: str) -> str:
        return (self.run / "tokens" / api).read_text().strip()

    @property
    def nomad_address(self) -> str:
        return f"https://{self.network}.1:4646"

    @property
    def consul_address(self) -> str:
        return f"https://{self.network}.1:8501"

    @property
    def operator(self) -> ssl.SSLContext:
        """The operator's certificate, without which no agent answers."""
        return certificates.platform(self.run / "operator")

    def nomad(self, path: str) -> Any:
        """GET of the servers' Nomad API with the operator's token."""
        url = f"{self.nomad_address}/v1/{path}"
        headers = {"X-Nomad-Token": self.token("nomad")}
        return self._document(url, headers)

    def watch_nomad(self, path: str, index: int, *, at_most_s: float) -> tuple[Any, int]:
        """(document, its index): returns on a change since `index`, or after `at_most_s`."""
        response = httpx.get(
            f"{self.nomad_address}/v1/{path}",
            params={"index": index, "wait": f"{math.ceil(at_most_s)}s"},
            headers={"X-Nomad-Token": self.token("nomad")},
            timeout=at_most_s + HANG_S,
            verify=self.operator,
        ).raise_for_status()
        return response.json(), int(response.headers["X-Nomad-Index"])

    def consul(self, path: str) -> Any:
        url = f"{self.consul_address}/v1/{path}"
        headers = {"X-Consul-Token": self.token("consul")}
        return self._document(url, headers)

    def _document(self, url: str, headers: Mapping[str, str]) -> Any:
        answer = httpx.get(url, headers=headers, verify=self.operator, timeout=HANG_S)
        return answer.raise_for_status().json()


def last_json_line(output: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return parsed


def copy_tree(target: Path) -> None:
    """Copies the files of this checkout that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source, destination = ROOT / name, target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            destination.symlink_to(source.readlink())
        elif source.is_file():
            destination.write_bytes(source.read_bytes())
            destination.chmod(source.stat().st_mode & 0o777)
            os.utime(destination, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))


def write_environment(
    checkout: Path,
    name: str,
    *,
    network: str,
    models: Mapping[str, Any],
    nodes: int,
    gateway: Mapping[str, Any] | None = None,
) -> None:
    """Pulumi.<name>.yaml with pools for its models, and a file for each simulated model."""
    pools = {
        "cpu": {"kind": "local", "nodes": nodes},
        "edge": {"kind": "local", "nodes": 1, "memory": "2GiB"},
        "tight": {"kind": "local", "nodes": 1, "memory": "450MiB"},  # two simulated replicas
    }
    used = {"edge", *(settings["pool"] for settings in models.values())}
    config = {
        "slipway:target": "dev",
        "slipway:network": {"cidr": f"{network}.0/24"},
        "slipway:pools": {pool: pools[pool] for pool in pools if pool in used},
        "slipway:models": dict(models),
        **({"slipway:gateway": dict(gateway)} if gateway else {}),
    }
    salt = yaml.safe_load((checkout / "Pulumi.dev.yaml").read_text()).get("encryptionsalt")
    document = {"config": config} | ({"encryptionsalt": salt} if salt else {})
    (checkout / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump(document))
    for model in filter(is_simulated, models):
        path = checkout / "models" / f"{model}.yaml"
        path.write_text(yaml.safe_dump({"name": model, "engine": SIMULATED_ENGINE | SLOW_ANSWERS}))


def deployment(least: int, most: int) -> dict[str, Any]:
    return {"pool": "cpu", "replicas": {"min": least, "max": most}}


MODELS = {
    "smollm2": deployment(1, 1),
    "sim-a": deployment(2, 4),
    "sim-b": deployment(1, 2),
    "sim-tight": deployment(2, 2) | {"pool": "tight", "surge": 0},
}
SMALL_MODELS = {"sim-a": deployment(1, 2)}
CANNOT_START = {"engine_args": {"faults": {"no_start": True}}}


def is_simulated(model: str) -> bool:
    return model.startswith("sim-")
