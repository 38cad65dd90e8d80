"""An environment whose hosts are in a file of their own: a changed host changes what is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.hosts_scale import Digests, write_environment
from bench.preview_scale import read, register
from stacks.planning import make_plan

COUNT = 4
# What every host of the pool is counted in: the facts of the environment and of the pool.
SHARED = {"platform", "pool-cpu"}


def registered(folder: Path, *, host: int | None = None, **changes: Any) -> dict[str, str]:
    """The digests of all resources by name, with one host changed."""
    folder.mkdir()
    write_environment(folder, COUNT)
    if host is not None:
        file = folder / "hosts.yaml"
        document = yaml.safe_load(file.read_text())
        document["hosts"][host].update(changes)
        file.write_text(yaml.safe_dump(document))
    digests = Digests()
    register(make_plan(read(folder)), digests)
    return digests.digests


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    assert one.keys() == other.keys()
    return {name for name, digest in one.items() if other[name] != digest}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_way_to_one_host_changes_what_runs_there_only(tmp_path: Path) -> None:
    before = registered(tmp_path / "before")
    after = registered(tmp_path / "after", host=2, ssh={"user": "ops", "port": 2222})
    changed = differing(before, after)
    assert changed == {"delivery-host-2", "admission-host-2", "node-host-2"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_order_of_the_file_means_nothing(tmp_path: Path) -> None:
    before = registered(tmp_path / "before")
    folder = tmp_path / "after"
    folder.mkdir()
    write_environment(folder, COUNT)
    file = folder / "hosts.yaml"
    hosts = yaml.safe_load(file.read_text())["hosts"]
    file.write_text(yaml.safe_dump({"hosts": hosts[::-1]}))
    digests = Digests()
    register(make_plan(read(folder)), digests)
    assert differing(before, digests.digests) <= SHARED
