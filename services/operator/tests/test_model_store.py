"""Whether a host has the disk on which its pool keeps weights."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from delivery.document import ModelStore, read_delivery
from delivery.fitness import Found, look, must_fit, requirements
from delivery.ssh import Connection
from program.errors import HostError

MOUNTED = Path("/dev/shm")  # on every Linux machine a filesystem of its own
GIBIBYTE = 1 << 30


class ThisMachine:
    """Runs here what a connection runs on a host."""

    def run(self, script: str) -> str:
        command = ["sh", "-c", script]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def document(**changes: Any) -> dict[str, Any]:
    place = {"address": "10.77.0.21", "port": 22, "user": "root", "host_key": "ssh-ed25519 AAAA"}
    return {
        "schema_version": 1,
        "environment": "fleet",
        "host": "rack1",
        "ssh": place | {"jump": None},
        "folder": "/opt/slipway",
        "python": [3, 11],
        "artifacts": [],
        **changes,
    }


def found_with(path: Path, size_bytes: int) -> tuple[Found, Any]:
    store = {"path": str(path), "size_bytes": size_bytes}
    delivery = read_delivery(document(model_store=store))
    return look(cast(Connection, ThisMachine()), delivery), delivery


def of_the_store(found: Found, delivery: Any) -> tuple[str, str]:
    (store,) = [each for each in requirements(found, delivery) if each.name == "model store"]
    return store.wrong, store.fix


def test_a_host_without_a_store_is_asked_for_none() -> None:
    delivery = read_delivery(document())
    assert delivery.model_store is None
    found = look(cast(Connection, ThisMachine()), delivery)
    assert found.store_bytes == 0
    assert "model store" not in {each.name for each in requirements(found, delivery)}


def test_a_disk_of_the_stated_size_fits() -> None:
    size = shutil.disk_usage(MOUNTED).total
    found, delivery = found_with(MOUNTED, size)
    assert found.store_bytes == size
    assert delivery.model_store == ModelStore(path=str(MOUNTED), size_bytes=size)
    assert of_the_store(found, delivery) == ("", "")


def test_a_smaller_disk_is_refused_with_both_sizes() -> None:
    size = shutil.disk_usage(MOUNTED).total
    wrong, fix = of_the_store(*found_with(MOUNTED, size + GIBIBYTE))
    assert wrong == (
        f"has {size / GIBIBYTE:.1f} GiB at {MOUNTED}; its pool states"
        f" {(size + GIBIBYTE) / GIBIBYTE:.1f} GiB"
    )
    assert "lower model_store.size" in fix


@pytest.mark.parametrize("name", ["a folder of the machine's own disk", "nothing"])
def test_a_path_where_nothing_is_mounted_is_refused_before_anything_is_sent(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "it's a store"
    if name != "nothing":
        path.mkdir()
    found, delivery = found_with(path, GIBIBYTE)
    with pytest.raises(HostError) as refused:
        must_fit(found, delivery)
    assert f"has nothing mounted at {path}, where its pool expects 1.0 GiB" in str(refused.value)
    assert "/etc/fstab" in str(refused.value)
