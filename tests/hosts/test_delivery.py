"""What hosts get over SSH: whole or not at all, once, and only from the host that was meant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.bed import FOLDER, Bed
from toolchain.settings import default_cache

pytestmark = pytest.mark.hosts

ROOT = Path(__file__).parents[2]
CODE = ROOT / "services" / "operator"
FOLDER_ON_HOST = "/opt/slipway"
HOST = "worker-0"
UNREACHABLE = 3  # deliver.py's exit code for a host on which no command could run
TOOL, PACKAGES = "tools/bin/greet-1.0", "envs/greet-0123456789ab"


@pytest.fixture(scope="module")
def agent(hosts: Bed) -> Iterator[str]:
    """An ssh-agent that holds the key of the bed."""
    path = str(FOLDER / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        subprocess.run(
            ["ssh-add", "-q", str(hosts.key)], env={**os.environ, "SSH_AUTH_SOCK": path}, check=True
        )
        yield path
        process.terminate()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A tool that prints a word, and an environment with a package."""
    tool = tmp_path / TOOL / "greet"
    tool.parent.mkdir(parents=True)
    real = tmp_path / "elsewhere"
    real.write_text("#!/bin/sh\necho hello\n")
    real.chmod(0o755)
    tool.symlink_to(real)
    package = tmp_path / PACKAGES / "lib/python3.11/site-packages/greeting.py"
    package.parent.mkdir(parents=True)
    package.write_text("WORD = 'hello'\n")
    return tmp_path


def document(bed: Bed, host: str = HOST, **changes: Any) -> dict[str, Any]:
    keys = {line.split()[0].split(",")[0]: line.split(" ", 1)[1] for line in known_hosts(bed)}
    place = {
        "address": bed.addresses[host],
        "port": 22,
        "user": "root",
        "host_key": keys[host].strip(),
        "jump": None,
    }
    whole = {
        "schema_version": 1,
        "environment": "hosts",
        "host": host,
        "ssh": place,
        "folder": FOLDER_ON_HOST,
        "python": [3, 11],
        "artifacts": [PACKAGES, TOOL],
    }
    return {**whole, **changes}


def known_hosts(bed: Bed) -> list[str]:
    return bed.known_hosts.read_text().splitlines()


def deliver(
    action: str, wanted: dict[str, Any], cache: Path, agent: str
) -> subprocess.CompletedProcess[str]:
    folders = {
        "SLIPWAY_RUN": "/nowhere",
        "SLIPWAY_CACHE": str(cache),
        "SLIPWAY_SCRATCH": "/nowhere",
    }
    return subprocess.run(
        [sys.executable, "-B", str(CODE / "deliver.py"), action],
        env={
            **os.environ,
            **folders,
            "SLIPWAY_DOCUMENT": json.dumps(wanted),
            "SSH_AUTH_SOCK": agent,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_a_host_lacks_is_brought_there_and_runs(hosts: Bed, cache: Path, agent: str) -> None:
    done = deliver("apply", document(hosts), cache, agent)
    assert done.returncode == 0, done.stderr
    host = hosts.hosts[HOST]
    assert host.ssh(f"{FOLDER_ON_HOST}/{TOOL}/greet") == "hello\n"
    for python in ("python", "python3"):
        greet = (
            f"{FOLDER_ON_HOST}/{PACKAGES}/bin/{python} -c 'import greeting; print(greeting.WORD)'"
        )
        assert host.ssh(greet) == "hello\n"
    assert host.ssh(f"stat -c '%U %a' {FOLDER_ON_HOST}/{TOOL}/greet") == "root 755\n"
    assert "greet-1.0" in done.stdout


def test_nothing_is_sent_twice(hosts: Bed, cache: Path, agent: str) -> None:
    assert deliver("apply", document(hosts), cache, agent).returncode == 0
    before = hosts.hosts[HOST].ssh(f"stat -c %Z {FOLDER_ON_HOST}/{TOOL}")
    done = deliver("apply", document(hosts), cache / "no such folder", agent)
    assert done.returncode == 0, done.stderr
    assert hosts.hosts[HOST].ssh(f"stat -c %Z {FOLDER_ON_HOST}/{TOOL}") == before


def test_a_delivery_that_fails_leaves_nothing_that_looks_complete(
    hosts: Bed, cache: Path, agent: str
) -> None:
    wanted = document(hosts, artifacts=[TOOL, "tools/bin/missing-1.0"], folder="/opt/other")
    done = deliver("apply", wanted, cache, agent)
    assert done.returncode == 2
    assert "tools/bin/missing-1.0 does not exist" in done.stderr
    assert hosts.hosts[HOST].ssh("ls -A /opt/other") == ""


def test_a_removal_leaves_the_host_as_it_was(hosts: Bed, cache: Path, agent: str) -> None:
    host = hosts.hosts[HOST]
    host.ssh(f"rm -rf {FOLDER_ON_HOST} /opt/other")
    before = host.ssh("find /opt /var/lib /etc | sort")
    assert deliver("apply", document(hosts), cache, agent).returncode == 0
    assert deliver("remove", document(hosts), cache, agent).returncode == 0
    assert host.ssh("find /opt /var/lib /etc | sort") == before


def test_what_another_environment_uses_stays(hosts: Bed, cache: Path, agent: str) -> None:
    other = document(hosts, environment="other", artifacts=[TOOL])
    assert deliver("apply", document(hosts), cache, agent).returncode == 0
    assert deliver("apply", other, cache, agent).returncode == 0
    assert deliver("remove", document(hosts), cache, agent).returncode == 0
    listed = hosts.hosts[HOST].ssh(f"cd {FOLDER_ON_HOST} && ls -d */* */*/*").split()
    assert listed == ["environments/other", "tools/bin", TOOL]
    assert deliver("remove", other, cache, agent).returncode == 0


def test_another_hosts_key_is_refused_and_named(hosts: Bed, cache: Path, agent: str) -> None:
    wanted = document(hosts)
    wanted["ssh"]["host_key"] = document(hosts, "edge-0")["ssh"]["host_key"]
    done = deliver("apply", wanted, cache, agent)
    assert done.returncode == UNREACHABLE
    assert f"{HOST} ({hosts.addresses[HOST]}) cannot be reached over SSH" in done.stderr
    assert "Host key verification failed" in done.stderr
    assert "fix: compare the key" in done.stderr


def test_a_host_that_does_not_answer_is_named_with_what_to_do(
    hosts: Bed, cache: Path, agent: str
) -> None:
    wanted = document(hosts)
    wanted["ssh"]["port"] = 2222
    done = deliver("apply", wanted, cache, agent)
    assert done.returncode == UNREACHABLE
    assert "Connection refused" in done.stderr
    assert "fix: start the SSH server" in done.stderr


def test_a_key_that_the_host_does_not_know_is_refused(hosts: Bed, cache: Path) -> None:
    done = deliver("apply", document(hosts), cache, "/nowhere")
    assert done.returncode == UNREACHABLE
    assert "Permission denied" in done.stderr
    assert "authorized_keys" in done.stderr


@pytest.mark.parametrize(
    ("program", "answer", "said"),
    [
        ("uname", "echo aarch64", "is aarch64; the tools are built for x86_64"),
        ("ldd", "echo ldd 2.31", "has glibc 2.31; the tools need 2.35 or newer"),
        ("date", "echo 1700000000", "s behind"),
    ],
)
def test_a_host_that_cannot_run_the_tools_is_named_before_anything_is_sent(
    hosts: Bed, cache: Path, agent: str, program: str, answer: str, said: str
) -> None:
    host = hosts.hosts[HOST]
    # Before /usr/bin on the path of a shell over SSH.
    host.ssh(f"printf '#!/bin/sh\\n{answer}\\n' > /usr/local/bin/{program}")
    host.ssh(f"chmod 755 /usr/local/bin/{program}")
    try:
        done = deliver("apply", document(hosts, folder="/opt/other"), cache, agent)
    finally:
        host.ssh(f"rm /usr/local/bin/{program}")
    assert done.returncode == 1
    assert f"{HOST} ({hosts.addresses[HOST]}) " in done.stderr
    assert said in done.stderr
    assert "fix: " in done.stderr
    host.ssh("test ! -e /opt/other")


@pytest.mark.parametrize(
    ("python", "artifact", "said"),
    [
        ("3.9", PACKAGES, "what hosts run needs 3.10, 3.11 or 3.12"),
        ("3.13", PACKAGES, "what hosts run needs 3.10, 3.11 or 3.12"),
        (
            "3.10",
            "envs/vllm-0123456789ab",
            "its engines run from environments made for Python 3.11",
        ),
    ],
)
def test_a_host_whose_python_is_of_no_use_is_named_before_anything_is_sent(
    hosts: Bed, cache: Path, agent: str, python: str, artifact: str, said: str
) -> None:
    host = hosts.hosts[HOST]
    host.ssh("mv /usr/bin/python3 /usr/bin/python3.away")
    host.ssh(f"printf '#!/bin/sh\\necho {python}\\n' > /usr/bin/python3")
    host.ssh("chmod 755 /usr/bin/python3")
    wanted = document(hosts, folder="/opt/other", artifacts=[artifact])
    try:
        done = deliver("apply", wanted, cache, agent)
    finally:
        host.ssh("mv /usr/bin/python3.away /usr/bin/python3")
    assert done.returncode == 1
    assert f") has Python {python} as /usr/bin/python3; {said}\nfix: use " in done.stderr
    assert done.stderr.count("fix: ") == 1
    host.ssh("test ! -e /opt/other")


def test_packages_for_another_python_come_beside_those_of_before(
    hosts: Bed, cache: Path, agent: str
) -> None:
    """A host whose distribution was upgraded; nothing else is sent again."""
    host = hosts.hosts[HOST]
    assert deliver("apply", document(hosts), cache, agent).returncode == 0
    newer = cache / f"{PACKAGES}-python3.12/lib/python3.12/site-packages/greeting.py"
    newer.parent.mkdir(parents=True)
    newer.write_text("WORD = 'goodbye'\n")
    tool = host.ssh(f"stat -c %Z {FOLDER_ON_HOST}/{TOOL}")
    host.give_python("3.12")
    try:
        done = deliver("apply", document(hosts), cache, agent)
        greet = f"{FOLDER_ON_HOST}/{PACKAGES}/bin/python -c 'import greeting; print(greeting.WORD)'"
        assert host.ssh(greet) == "goodbye\n"
    finally:
        host.ssh("ln -sf python3.11 /usr/bin/python3")
    assert done.stdout.endswith(f"{HOST}: has all of 2 artifacts, for Python 3.12\n")
    assert host.ssh(greet) == "hello\n"
    assert host.ssh(f"stat -c %Z {FOLDER_ON_HOST}/{TOOL}") == tool


def test_a_package_that_a_host_lacks_is_named_before_anything_is_sent(
    hosts: Bed, cache: Path, agent: str
) -> None:
    wanted = document(hosts, folder="/opt/other")
    there, missing = {"systemd": "/usr/bin/systemctl"}, {"chrony": "/usr/sbin/chronyd"}
    done = deliver("apply", wanted | {"packages": there | missing}, cache, agent)
    assert done.returncode == 1
    assert "has no /usr/sbin/chronyd" in done.stderr
    assert "fix: apt install chrony there" in done.stderr
    assert "systemctl" not in done.stderr
    hosts.hosts[HOST].ssh("test ! -e /opt/other")


def test_a_full_disk_is_named_before_anything_is_sent(hosts: Bed, cache: Path, agent: str) -> None:
    host = hosts.hosts[HOST]
    host.ssh("mkdir -p /opt/small && mount -t tmpfs -o size=64k tmpfs /opt/small")
    (cache / TOOL / "data").write_bytes(bytes(1 << 20))
    try:
        done = deliver("apply", document(hosts, folder="/opt/small"), cache, agent)
        left = host.ssh("ls -A /opt/small")
    finally:
        host.ssh("umount /opt/small && rmdir /opt/small")
    assert done.returncode == 1
    assert "needs 1 MiB more" in done.stderr
    assert "make room on its disk" in done.stderr
    assert left == ""


def test_a_host_behind_a_jump_host_is_reached_through_it(
    hosts: Bed, cache: Path, agent: str
) -> None:
    wanted = document(hosts)
    jump = document(hosts, "edge-0")["ssh"]
    wanted["ssh"]["jump"] = {key: jump[key] for key in ("address", "port", "user", "host_key")}
    done = deliver("apply", wanted, cache, agent)
    assert done.returncode == 0, done.stderr
    wanted["ssh"]["jump"]["host_key"] = wanted["ssh"]["host_key"]
    done = deliver("apply", wanted, cache, agent)
    assert done.returncode == UNREACHABLE
    assert "Host key verification failed" in done.stderr


def test_the_cache_of_this_machine_is_not_on_a_host(hosts: Bed) -> None:
    assert hosts.hosts[HOST].ssh(f"ls -A {default_cache()} 2>/dev/null; true") == ""
