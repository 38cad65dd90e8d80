"""An `up` that meets a host that is not fit names it and what to do; the next one completes it."""

from __future__ import annotations

import pytest

from tests.hosts.bed import Bed
from tests.hosts.conftest import ADDRESSES
from tests.hosts.environment import Checkout, must_complete

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]


def refused(checkout: Checkout) -> str:
    """What an `up` says that fails."""
    done = checkout.slipway("up", check=False)
    assert done.returncode == 1, done.stdout
    return done.stdout + done.stderr


def test_a_host_that_is_not_there_is_named_and_nothing_of_it_is_called_done(
    checkout: Checkout, hosts: Bed
) -> None:
    hosts.hosts["worker-0"].end()
    said = refused(checkout)
    assert "worker-0" in said
    assert ADDRESSES["worker-0"] in said
    assert "node-worker-0 created" not in said
    hosts.start("worker-0")
    hosts.wait_until_ready()


@pytest.mark.parametrize(
    ("host", "before", "after", "named"),
    [
        ("worker-0", "mv /usr/bin/uname /usr/bin/uname.real && printf '#!/bin/sh\\necho riscv64\\n'"
         " > /usr/bin/uname && chmod +x /usr/bin/uname", "mv /usr/bin/uname.real /usr/bin/uname",
         "riscv64"),
        ("worker-0", "mv /usr/bin/ldd /usr/bin/ldd.real && printf '#!/bin/sh\\necho ldd 2.17\\n'"
         " > /usr/bin/ldd && chmod +x /usr/bin/ldd", "mv /usr/bin/ldd.real /usr/bin/ldd", "2.17"),
    ],
    ids=["architecture", "C library"],
)  # fmt: skip
def test_a_host_that_is_not_fit_is_named_with_what_it_lacks(
    checkout: Checkout, hosts: Bed, host: str, before: str, after: str, named: str
) -> None:
    hosts.hosts[host].ssh(before)
    try:
        said = refused(checkout)
    finally:
        hosts.hosts[host].ssh(after)
    assert host in said
    assert named in said
    assert "fix:" in said
    hosts.hosts[host].ssh("test ! -e /opt/slipway/tools")


def test_the_next_up_completes_it(checkout: Checkout) -> None:
    checkout.slipway("up")
    must_complete(ADDRESSES["edge-0"])
