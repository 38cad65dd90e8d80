"""A test bed of hosts; needs root and namespaces, and is skipped with the reason elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.hosts.bed import NETWORK, Bed, bed, missing_to_run
from tests.hosts.environment import Checkout, environment
from toolchain.settings import default_cache

ROOT = Path(__file__).parents[2]
ADDRESSES = {"server-0": f"{NETWORK}.11", "worker-0": f"{NETWORK}.21", "edge-0": f"{NETWORK}.31"}


def hosts_cache() -> Path:
    return default_cache() / "hosts"


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    """Of the hosts that a module has, by name; a module may define its own."""
    return ADDRESSES


@pytest.fixture(scope="module")
def packages() -> Sequence[str]:
    """Debian's that hosts have beside those of every bed; a module may define its own."""
    return ()


@pytest.fixture(scope="module")
def fabric() -> Mapping[str, str]:
    """Addresses on the second network, of hosts that have one; a module may define its own."""
    return {}


@pytest.fixture(scope="module")
def hosts(
    addresses: Mapping[str, str], packages: Sequence[str], fabric: Mapping[str, str]
) -> Iterator[Bed]:
    """Hosts that run, as bare as a new machine: with Python, but without any cache."""
    if reason := missing_to_run():
        pytest.skip(reason)
    hidden = (Path.home(), ROOT, hosts_cache().parent)
    with bed(
        addresses, cache=hosts_cache(), hidden=hidden, packages=packages, fabric=fabric
    ) as started:
        yield started


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Of an environment that is not up yet; a module may define its own."""
    with environment(hosts, tmp_path_factory, models={"sim-a": {"min": 1, "max": 1}}) as made:
        yield made
