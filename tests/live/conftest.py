"""A whole platform of its own: a copy of this checkout, with another range of addresses."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ENVIRONMENT = "live"
CHECKOUT_PATH_LENGTH = 120

SIMULATED = {
    "engine": {
        "kind": "sim",
        "architecture": "llama-3.1-8b",
        "profile": "h100-fp8-llama-3.1-8b",
        "max_model_len": 8192,
        "max_num_seqs": 32,
    },
}

CONFIG = {
    "slipway:target": "dev",
    "slipway:network": {"cidr": "127.78.0.0/24"},
    "slipway:pools": {"cpu": {"kind": "local", "nodes": 2}, "edge": {"kind": "local", "nodes": 1, "memory": "2GiB"}},
    "slipway:models": {
        "smollm2": {"pool": "cpu", "replicas": {"min": 1, "max": 1}},
        "sim-a": {"pool": "cpu", "replicas": {"min": 2, "max": 4}},
        "sim-b": {"pool": "cpu", "replicas": {"min": 1, "max": 2}},
    },
}


@dataclasses.dataclass(frozen=True)
class Platform:
    checkout: Path
    first_up: dict[str, Any]

    def slipway(
        self, *arguments: str, check: bool = True, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self.checkout / "slipway"), *arguments]
        result = subprocess.run(
            command,
            cwd=self.checkout,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and result.returncode:
            pytest.fail(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout[-3000:]}\n{result.stderr[-6000:]}")
        return result

    def up(self) -> dict[str, Any]:
        return last_json_line(self.slipway("up", "-s", ENVIRONMENT, "--json", timeout_s=900).stdout)

    @property
    def http(self) -> str:
        return str(self.first_up["gateway"]["http"])

    @property
    def grpc(self) -> str:
        return str(self.first_up["gateway"]["grpc"])

    def model_file(self, model: str) -> Path:
        return self.checkout / "models" / f"{model}.yaml"

    def edit_model(self, model: str, **engine: Any) -> None:
        """Change keys of a model's `engine:` section."""
        path = self.model_file(model)
        document = yaml.safe_load(path.read_text())
        document["engine"].update(engine)
        path.write_text(yaml.safe_dump(document))

    def token(self, api: str) -> str:
        return (self.checkout / ".slipway" / ENVIRONMENT / "tokens" / api).read_text().strip()


def last_json_line(output: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return parsed


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the working tree under a path of 120 characters."""
    base = tmp_path_factory.mktemp("live")
    padding = CHECKOUT_PATH_LENGTH - len(str(base)) - 1
    path = base / ("c" * max(padding, 1))
    copy_tree(path)
    write_environment(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def copy_tree(target: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            destination = target / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, destination)


def write_environment(checkout: Path) -> None:
    salt = yaml.safe_load((checkout / "Pulumi.dev.yaml").read_text()).get("encryptionsalt")
    document = {"config": CONFIG} | ({"encryptionsalt": salt} if salt else {})
    (checkout / f"Pulumi.{ENVIRONMENT}.yaml").write_text(yaml.safe_dump(document))
    for name in ("sim-a", "sim-b"):
        (checkout / "models" / f"{name}.yaml").write_text(
            yaml.safe_dump({"name": name, **SIMULATED})
        )


@pytest.fixture(scope="session")
def platform(checkout: Path) -> Iterator[Platform]:
    """The platform, up; taken down at the end whatever happened."""
    unstarted = Platform(checkout=checkout, first_up={})
    try:
        yield dataclasses.replace(unstarted, first_up=unstarted.up())
    finally:
        unstarted.slipway("down", "-s", ENVIRONMENT, "--yes", check=False)


@pytest.fixture(autouse=True)
def _bounded_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests' own interpreter settings must not reach the copy's.
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        if name in os.environ:
            monkeypatch.delenv(name)
