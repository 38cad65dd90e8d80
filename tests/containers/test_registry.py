"""An image by its digest, from a registry that wants credentials: Debian's, with real Docker."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest
from docker_daemon import DockerDaemon, docker_daemon

from tests.components.nomad_agent import running
from tests.docker_programs import docker_programs, missing_to_run
from tests.waiting import until
from toolchain.settings import default_cache

pytestmark = [pytest.mark.binaries]

ROOT = Path(__file__).parents[2]
ADDRESS = "127.98.2.1:5000"  # Docker speaks plain HTTP to loopback addresses
NAME = f"{ADDRESS}/serving/triton"
USER = "puller"
CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: "{address}"}}
auth: {{htpasswd: {{realm: test, path: {folder}/users}}}}
"""


@dataclass(frozen=True)
class Registry:
    """`image` is what it has, by digest."""

    image: str
    password: str


@pytest.fixture(scope="module")
def programs() -> Path:
    if reason := missing_to_run():
        pytest.skip(reason)
    return docker_programs(default_cache() / "hosts")


@pytest.fixture(scope="module")
def daemon(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerDaemon]:
    with docker_daemon(programs, tmp_path_factory.mktemp("docker") / "daemon") as started:
        yield started


@pytest.fixture(scope="module")
def registry(
    programs: Path, daemon: DockerDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """With one image, which the daemon does not have any more."""
    folder = tmp_path_factory.mktemp("registry")
    password = f"secret-{uuid.uuid4().hex}"
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    (folder / "users").write_text(f"{USER}:{hashed}\n")
    configuration = folder / "config.yml"
    configuration.write_text(CONFIGURATION.format(folder=folder, address=ADDRESS))
    command = [str(programs / "usr/bin/docker-registry"), "serve", str(configuration)]
    with running(command, folder / "log"):
        until(lambda: _answers() or None, "the registry", log=folder / "log")
        yield Registry(image=_pushed(daemon, folder, password), password=password)


def _answers() -> bool:
    try:
        return httpx.get(f"http://{ADDRESS}/v2/").status_code == 401
    except httpx.TransportError:
        return False


def _pushed(daemon: DockerDaemon, folder: Path, password: str) -> str:
    """The name by digest of a small image, once only the registry has it."""
    content = folder / "file"
    content.write_text("an image")
    archive = folder / "layer.tar"
    subprocess.run(["tar", "-C", folder, "-cf", archive, content.name], check=True)
    tagged = f"{NAME}:pushed"
    daemon.client("import", str(archive), tagged)
    configuration = f"--config={folder / 'docker'}"
    daemon.client(configuration, "login", f"--username={USER}", f"--password={password}", ADDRESS)
    daemon.client(configuration, "push", "--quiet", tagged)
    digest = daemon.client("inspect", "--format={{index .RepoDigests 0}}", tagged).strip()
    daemon.client("rmi", tagged)
    assert not daemon.client("images", "--quiet").split()
    return digest


class Host:
    """Runs the delivery's commands as a host would, whose Docker has these credentials."""

    def __init__(self, programs: Path, daemon: DockerDaemon, folder: Path) -> None:
        self.said = ""
        self._variables = {
            "PATH": f"{programs / 'usr/bin'}:{os.environ['PATH']}",
            "DOCKER_HOST": f"unix://{daemon.socket}",
            "DOCKER_CONFIG": str(folder),
        }

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command], env=self._variables, capture_output=True, text=True, check=False
        )
        self.said += done.stdout + done.stderr
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout


@pytest.fixture
def delivery(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program's module."""
    monkeypatch.syspath_prepend(str(ROOT / "services/operator"))
    from delivery import containers  # noqa: PLC0415

    yield containers
    for name in [each for each in sys.modules if each.partition(".")[0] in ("delivery", "program")]:
        del sys.modules[name]


def test_an_image_is_pulled_by_its_digest_with_the_credentials_of_the_hosts_docker(
    programs: Path, daemon: DockerDaemon, registry: Registry, delivery: Any, tmp_path: Path
) -> None:
    image = delivery.Image(name=registry.image, archive="", vendor="amd")
    host = Host(programs, daemon, tmp_path)
    with pytest.raises(RuntimeError, match=r"no basic auth credentials|unauthorized|denied"):
        delivery.bring_image(host, image, "gpu-0", "fleet")
    host.run(f"echo {registry.password} | docker login -u {USER} --password-stdin {ADDRESS}")
    host.said = ""
    delivery.bring_image(host, image, "gpu-0", "fleet")
    delivery.bring_image(host, image, "gpu-0", "fleet")
    assert daemon.client("images", "--quiet", "--digests", NAME).split()
    assert registry.password not in host.said
    daemon.client("image", "prune", "--force")
    assert daemon.client("images", "--quiet", "slipway/fleet").split()
    delivery.remove_images(host, "fleet")
    assert not daemon.client("images", "--quiet").split()


def test_a_digest_that_the_registry_does_not_have_is_not_brought(
    programs: Path, daemon: DockerDaemon, registry: Registry, delivery: Any, tmp_path: Path
) -> None:
    host = Host(programs, daemon, tmp_path)
    host.run(f"echo {registry.password} | docker login -u {USER} --password-stdin {ADDRESS}")
    other = f"{NAME}@sha256:{'0' * 64}"
    with pytest.raises(RuntimeError, match=r"manifest unknown|not found"):
        delivery.bring_image(
            host, delivery.Image(name=other, archive="", vendor="amd"), "gpu-0", "fleet"
        )
