"""Replicas with the real Triton and a fake engine, which start in 2 s.

If SLIPWAY_DOCKER names the folder with Docker's programs, they run in containers, and of all tests
only those that start a replica do.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docker_daemon import docker_daemon
from replica_process import GRPC_PORT, ReplicaProcess
from runtimes import InContainers, OnHost, Runtime, load_stock_image
from triton_stream import TritonStream

# One loopback address per replica, so that ports never collide; those in containers have a network
# of their own, for both kinds are tested side by side.
DOCKER = os.environ.get("SLIPWAY_DOCKER")
NETWORK = "127.92.0" if DOCKER is None else "127.92.1"
ADDRESSES = (f"{NETWORK}.{host}" for host in itertools.cycle(range(20, 250)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if DOCKER is None:
        return
    others = [item for item in items if "runtime" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Runtime]]:
    if DOCKER is None:
        yield OnHost
        return
    folder = tmp_path_factory.mktemp("docker")
    with docker_daemon(Path(DOCKER), folder / "daemon") as daemon:
        image = load_stock_image(daemon, folder)
        yield partial(InContainers, daemon=daemon, image=image)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Like tmp_path, with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def new_replica(
    short_folder: Path, runtime: Callable[[Path], Runtime]
) -> Iterator[Callable[..., ReplicaProcess]]:
    """Creates replicas, not yet started; ends those that the test leaves."""
    made: list[ReplicaProcess] = []

    def make(**changes: Any) -> ReplicaProcess:
        folder = short_folder / str(len(made))
        folder.mkdir()
        made.append(ReplicaProcess(folder, next(ADDRESSES), runtime(folder), **changes))
        return made[-1]

    yield make
    for replica in made:
        replica.end()


@pytest.fixture(scope="module")
def replica(runtime: Callable[[Path], Runtime]) -> Iterator[ReplicaProcess]:
    """A running replica that the tests of a module share."""
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    process = ReplicaProcess(folder, next(ADDRESSES), runtime(folder)).start().wait_for("ready")
    yield process
    process.end()
    shutil.rmtree(folder)


@pytest.fixture
def stream(replica: ReplicaProcess) -> Iterator[TritonStream]:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as opened:
        yield opened
