"""A host whose engines run in containers: refused until its Docker is fit, brought the image from a
file, and served from.

The image has the layout of Triton's stock image, with a fake engine as its vLLM: no engine of a
real device can run here. Everything around it is the platform's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from stock_image import packed_by

from slipway.config.artifacts import REQUIREMENTS
from slipway.planner.engines.vllm.release import VLLM
from tests.hosts.accelerators import (
    EDGE,
    NOMAD,
    SERVER,
    SETTINGS,
    answering,
    job_of,
    put_devices,
    replicas,
    write,
)
from tests.hosts.bed import Bed, Host
from tests.hosts.environment import Checkout, environment, listed, streams
from tests.hosts.weight_sources import WeightSources, give_credentials, weight_sources
from tests.waiting import HANG_S, until
from toolchain.prepare import EnvironmentJob, prepare
from toolchain.settings import default_cache

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

ROOT = Path(__file__).parents[2]
MODEL = "chat"
RESTARTS = 3
ARCHIVE = "images/triton.tar"
GPU = {"gpu-0": SETTINGS["pools"]["gpu"]["hosts"][0]["address"]}
DAEMON = {
    "bridge": "none",
    "iptables": False,
    "data-root": "/run/docker-data",  # the host's root is an overlay, on which Docker has no other
    "runtimes": {"nvidia": {"path": "/usr/local/bin/runc-within-limits"}},
    "default-runtime": "nvidia",
}
OWN_SOCKET = """\
[Service]
ExecStart=
ExecStart=/usr/sbin/dockerd -H fd:// -H unix:///run/docker-nomad.sock \\
  --containerd=/run/containerd/containerd.sock
"""
# This machine may not allow to raise a limit, as containers ask for; their other settings stay.
RUNC = """\
#!/usr/bin/python3
import json, os, sys
from pathlib import Path

if "create" in sys.argv:
    config = Path(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    document = json.loads(config.read_text())
    document["process"].pop("rlimits", None)
    config.write_text(json.dumps(document))
os.execv("/usr/sbin/runc", ["runc", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {"server-0": SERVER, **GPU, "edge-0": EDGE}


@pytest.fixture(scope="module")
def packages() -> Sequence[str]:
    return ("docker.io",)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Its ID, and the file that has it."""
    job = EnvironmentJob(name="triton", requirements=ROOT / REQUIREMENTS["triton"])
    python = prepare([job], default_cache())[job.name] / "bin/python"
    archive = tmp_path_factory.mktemp("image") / "triton.tar"
    engine = ROOT / "services/triton_vllm/tests/fake_vllm.py"
    return packed_by(python, engine, VLLM, archive), archive


@pytest.fixture(scope="module")
def checkout(
    hosts: Bed, image: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Checkout]:
    """Of an environment without models, which is not up yet."""
    of_image = {"runtime": "container", "image": image[0], "image_archive": ARCHIVE}
    pools = SETTINGS["pools"]
    pools = {**pools, "gpu": {**pools["gpu"], "hosts": listed(GPU), **of_image}}
    settings = {**SETTINGS, "pools": pools}
    with environment(hosts, tmp_path_factory, models={}, settings=settings) as made:
        (made.folder / ARCHIVE).parent.mkdir()
        (made.folder / ARCHIVE).hardlink_to(image[1])
        yield made


@pytest.fixture(scope="module")
def gpu(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """With its devices; its Docker runs as its package has it."""
    put_devices(hosts, tmp_path_factory.mktemp("library"), GPU)
    return hosts.hosts["gpu-0"]


def configure_docker(host: Host, **settings: Any) -> None:
    write(host, "/usr/local/bin/runc-within-limits", RUNC)
    write(host, "/etc/docker/daemon.json", json.dumps({**DAEMON, **settings}))
    host.ssh("systemctl daemon-reload; systemctl reset-failed docker; systemctl restart docker")


def make_docker_fit(host: Host) -> None:
    """As the messages say."""
    write(host, "/etc/systemd/system/docker.service.d/own-socket.conf", OWN_SOCKET)
    configure_docker(host, **{"live-restore": True})


def failing(checkout: Checkout) -> dict[str, str]:
    """What `doctor` says is wrong with the host, by name."""
    done = checkout.slipway("doctor", "--host", "gpu-0", "--json", check=False)
    checks = json.loads(done.stdout)
    return {check["name"]: check["detail"] for check in checks if check["state"] == "fail"}


def test_a_host_whose_docker_is_not_fit_is_told_all_of_it_and_gets_nothing(
    checkout: Checkout, gpu: Host
) -> None:
    configure_docker(gpu, runtimes={}, **{"default-runtime": "runc"})
    assert failing(checkout) == {
        "live restore": "gpu-0 has live restore off: a restart of Docker's daemon ends all"
        " containers",
        "Docker's own socket": "gpu-0 has no Docker socket at /run/docker-nomad.sock: through"
        " systemd's, a restart of the daemon ends all containers",
        "container toolkit": "gpu-0 has no Docker runtime named nvidia, which gives containers"
        " their devices",
    }
    gpu.ssh("systemctl stop docker.socket docker")
    done = checkout.slipway("up", check=False)
    assert done.returncode == 1
    assert "has no Docker that answers" in done.stderr, done.stderr[-4000:]
    gpu.ssh("test ! -e /opt/slipway")


def test_an_archive_of_another_image_is_refused_before_it_is_sent(
    checkout: Checkout, gpu: Host, image: tuple[str, Path]
) -> None:
    make_docker_fit(gpu)
    (checkout.folder / ARCHIVE).unlink()
    (checkout.folder / ARCHIVE).write_bytes(b"no archive")
    done = checkout.slipway("up", check=False)
    (checkout.folder / ARCHIVE).unlink()
    (checkout.folder / ARCHIVE).hardlink_to(image[1])
    assert done.returncode == 1
    assert "is no archive of an image" in done.stderr, done.stderr[-4000:]
    assert gpu.ssh("docker images --quiet") == ""


@pytest.fixture(scope="module")
def sources(hosts: Bed) -> Iterator[WeightSources]:
    with weight_sources(tuple(GPU)) as made:
        yield made


@pytest.fixture(scope="module")
def serving(checkout: Checkout, gpu: Host, sources: WeightSources) -> Checkout:
    """The environment with a model, whose weights a container fetches from a bucket."""
    checkout.slipway("up")
    give_credentials(checkout, sources)
    source = sources.bucket
    engine = {"kind": "vllm", "architecture": "qwen2.5-7b", "max_model_len": 4096}
    content = {"name": MODEL, "source": source, "engine": engine}
    (checkout.folder / f"models/{MODEL}.yaml").write_text(yaml.safe_dump(content))
    checkout.put("models", {MODEL: {"pool": "gpu", "replicas": {"min": 2, "max": 3}}})
    checkout.slipway("up")
    return checkout


def test_replicas_answer_through_the_gateway_from_containers_of_the_image(
    serving: Checkout, gpu: Host, image: tuple[str, Path]
) -> None:
    answer = httpx.post(
        f"http://{EDGE}:8080/v1/completions",
        json={"model": MODEL, "prompt": "hi there", "max_tokens": 4},
        timeout=HANG_S,
    )
    assert answer.raise_for_status().json()["choices"][0]["text"] == " hi there hi there"
    running = gpu.ssh("docker ps --no-trunc --format '{{.Image}} {{.Names}}'").splitlines()
    names = {f"server-{each.id}" for each in replicas(serving)}
    assert {tuple(line.split()) for line in running} == {(image[0], name) for name in names}
    assert len(names) == 2


def test_weights_were_fetched_by_a_container_with_its_credentials(
    serving: Checkout, gpu: Host, sources: WeightSources
) -> None:
    asked = sources.authorizations()["bucket"]
    assert asked
    assert all(sources.credentials["models"]["access_key_id"] in str(each) for each in asked)
    job = serving.ask(f"{NOMAD}/v1/job/{job_of(serving, MODEL)}")
    drivers = {task["Name"]: task["Driver"] for task in job["TaskGroups"][0]["Tasks"]}
    assert drivers == {"tls-proxy": "raw_exec", "weights": "docker", "server": "docker"}
    assert "slipway-manifest.json" in gpu.ssh("ls /opt/slipway/weights/*/")


def test_streams_outlive_restarts_of_docker_on_their_host(serving: Checkout, gpu: Host) -> None:
    before = {each.id for each in replicas(serving)}
    with streams(EDGE, model=MODEL, tokens=100) as streamed:
        until(lambda: streamed.ended, "a stream that has ended")
        for _ in range(RESTARTS):
            gpu.ssh("systemctl reset-failed docker; systemctl restart docker")
            count = len(streamed.ended)
            until(lambda seen=count: len(streamed.ended) > seen + 8 or None, "streams after it")
    assert streamed.failed == []
    assert {each.id for each in replicas(serving)} == before
    until(lambda: answering(serving) >= before or None, "both replicas pass their checks")


def test_taking_the_environment_down_leaves_neither_containers_nor_the_image(
    serving: Checkout, gpu: Host
) -> None:
    serving.slipway("unprotect")
    serving.slipway("down", "--yes")
    assert gpu.ssh("docker ps --all --quiet") == ""
    assert gpu.ssh("docker images --quiet") == ""
    gpu.ssh("test ! -e /opt/slipway/bundles")
