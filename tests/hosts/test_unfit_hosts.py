"""An `up` that meets a host that is not fit names it and what to do; the next one completes it.

A host with the Python of another distribution is fit.
"""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from components.hosts.delivery import CACHE
from tests.hosts.bed import Bed, Host
from tests.hosts.conftest import ADDRESSES
from tests.hosts.environment import Checkout, must_complete
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

HOST = "worker-0"
PYTHONS = {HOST: "3.10", "edge-0": "3.12"}  # Ubuntu's; the server has Debian's
UPGRADED = "3.12"
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
OTHER_TIME = "/etc/ssh/sshd_config.d/other-time.conf"


@pytest.fixture(scope="module", autouse=True)
def _with_other_pythons(hosts: Bed) -> None:
    for name, version in PYTHONS.items():
        hosts.hosts[name].give_python(version)


def replaced(program: str, says: str) -> tuple[str, str]:
    """The commands that put another program in its place, and the first one back."""
    path = f"/usr/bin/{program}"
    script = f"printf '#!/bin/sh\\necho {says}\\n' > {path} && chmod +x {path}"
    return f"mv {path} {path}.real && {script}", f"mv {path}.real {path}"


# How a host becomes unfit, how it is mended, and what the message says of it (a pattern) and of the
# fix. The other clock is that of everything that runs over SSH: the machine's own is never set. Its
# distance includes the time of the answer, in whole seconds.
UNFIT = {
    "architecture": (
        *replaced("uname", "riscv64"),
        ("is riscv64; the tools are built for x86_64", "fix: use another host"),
    ),
    "C library": (
        *replaced("ldd", "ldd 2.17"),
        ("has glibc 2.17; the tools need 2.35 or newer", "fix: use Debian 12"),
    ),
    "clock": (
        f"echo 'SetEnv LD_PRELOAD={FAKETIME} FAKETIME=-300s' > {OTHER_TIME}"
        " && systemctl reload ssh",
        f"rm {OTHER_TIME} && systemctl reload ssh",
        ("has a clock that is 30[0-5] s behind", "fix: synchronise it"),
    ),
    "disk": (
        "mkdir -p /opt/slipway && mount -t tmpfs -o size=64k tmpfs /opt/slipway",
        "umount /opt/slipway",
        ("has 0 MiB left for /opt/slipway, which needs ", "fix: make room on its disk"),
    ),
}


def refused(checkout: Checkout) -> str:
    """What an `up` says that fails."""
    done = checkout.slipway("up", check=False)
    assert done.returncode == 1, done.stdout
    return done.stdout + done.stderr


def test_a_host_that_is_not_there_is_named_and_nothing_of_it_is_called_done(
    checkout: Checkout, hosts: Bed
) -> None:
    hosts.hosts[HOST].end()
    said = refused(checkout)
    assert f"{HOST} ({ADDRESSES[HOST]}) cannot be reached over SSH" in said
    assert f"fix: start {HOST}, or correct its address" in said
    assert f"node-{HOST} created" not in said
    host = hosts.start(HOST)
    hosts.wait_until_ready()
    host.give_python(PYTHONS[HOST])


def test_a_host_with_another_key_is_not_taken_for_it(checkout: Checkout) -> None:
    known = checkout.folder / "known_hosts"
    pinned = known.read_text()
    _exchange_keys(known, HOST, "edge-0")
    try:
        said = refused(checkout)
    finally:
        known.write_text(pinned)
    assert f"{HOST} ({ADDRESSES[HOST]}) cannot be reached over SSH" in said
    assert "Host key verification failed" in said
    assert "fix: compare the key with the one on the host's console" in said
    assert f"node-{HOST} created" not in said


@pytest.mark.parametrize(("spoil", "mend", "message"), UNFIT.values(), ids=UNFIT.keys())
def test_a_host_that_is_not_fit_is_named_with_what_it_lacks(
    checkout: Checkout, hosts: Bed, spoil: str, mend: str, message: tuple[str, str]
) -> None:
    host = hosts.hosts[HOST]
    host.ssh(spoil)
    hosts.wait_until_ready()
    try:
        said = refused(checkout)
        host.ssh("test ! -e /opt/slipway/tools")
    finally:
        host.ssh(mend)
        hosts.wait_until_ready()
    wrong, fix = message
    assert re.search(re.escape(f"{HOST} ({ADDRESSES[HOST]}) ") + wrong, said), said
    assert fix in said
    assert f"node-{HOST} created" not in said


def test_the_next_up_completes_it(checkout: Checkout, hosts: Bed) -> None:
    """Every program runs with its host's own Python."""
    checkout.slipway("up")
    must_complete(ADDRESSES["edge-0"])
    for name, version in PYTHONS.items():
        assert pythons_of_tasks(hosts.hosts[name]) == {f"/usr/bin/python{version}"}
        assert packages(hosts.hosts[name]) == {version}


def test_a_host_with_a_newer_python_gets_what_it_runs_anew(checkout: Checkout, hosts: Bed) -> None:
    host = hosts.hosts[HOST]
    host.give_python(UPGRADED)
    host.ssh("rm -r /usr/lib/python3.10 /usr/bin/python3.10")
    said = checkout.slipway("up").stderr
    assert f"with another Python than before: {HOST}" in said
    assert checkout.changed() == {f"delivery-{HOST}"}
    assert packages(host) == {PYTHONS[HOST], UPGRADED}
    host.ssh("pkill -f '[e]ngine_sim.py'")  # a reboot would do more
    until(completes, "an answer of the new replica")
    assert pythons_of_tasks(host) == {f"/usr/bin/python{UPGRADED}"}


def completes() -> bool:
    try:
        must_complete(ADDRESSES["edge-0"])
    except httpx.HTTPError:
        return False
    return True


def pythons_of_tasks(host: Host) -> set[str]:
    """The interpreters of the processes whose code or packages were brought to the host."""
    pids = host.ssh(f"pgrep -f '{CACHE}[/](envs|bundles)/' || true").split()
    links = " ".join(f"/proc/{pid}/exe" for pid in pids)
    return set(host.ssh(f"readlink -e {links} || true").split())


def packages(host: Host) -> set[str]:
    """The Pythons for which its environments have packages."""
    found = host.ssh(f"ls -d {CACHE}/envs/*/lib/python*").split()
    return {Path(each).name.removeprefix("python") for each in found}


def _exchange_keys(known_hosts: Path, one: str, other: str) -> None:
    """Writes the key of one host into the lines of the other."""
    lines = [line.split() for line in known_hosts.read_text().splitlines()]
    keys = {names.split(",")[0]: key for names, *key in lines}
    wrong = keys | {one: keys[other]}
    known_hosts.write_text(
        "".join(f"{names} {' '.join(wrong[names.split(',')[0]])}\n" for names, *_ in lines)
    )
