"""Replicas with the real Triton and a fake engine, which start in 2 s."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from replica_process import GRPC_PORT, ReplicaProcess
from triton_stream import TritonStream

# One loopback address per replica, so that ports never collide.
ADDRESSES = (f"127.92.0.{host}" for host in itertools.cycle(range(20, 250)))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Like tmp_path, with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def new_replica(short_folder: Path) -> Iterator[Callable[..., ReplicaProcess]]:
    """Creates replicas, not yet started; ends those that the test leaves."""
    made: list[ReplicaProcess] = []

    def make(**changes: Any) -> ReplicaProcess:
        folder = short_folder / str(len(made))
        folder.mkdir()
        made.append(ReplicaProcess(folder, next(ADDRESSES), **changes))
        return made[-1]

    yield make
    for replica in made:
        replica.end()


@pytest.fixture(scope="module")
def replica() -> Iterator[ReplicaProcess]:
    """A running replica that the tests of a module share."""
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    process = ReplicaProcess(folder, next(ADDRESSES)).start().wait_for("ready")
    yield process
    process.end()
    shutil.rmtree(folder)


@pytest.fixture
def stream(replica: ReplicaProcess) -> Iterator[TritonStream]:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as opened:
        yield opened
