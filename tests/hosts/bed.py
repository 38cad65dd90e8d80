"""Hosts on this machine: each has systemd as its first process, sshd, and namespaces of its own.

    with bed({"worker-0": "10.77.0.21"}, cache=..., hidden=...) as made:
        made.hosts["worker-0"].ssh("hostname")

Needs root. Every host sees the programs of this machine and the packages in PACKAGES, and writes to
a file system in memory. tests/hosts/leftovers.py removes everything at the end.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.hosts import leftovers
from tests.hosts.packages import archive_with
from tests.interpreters import usr_of

FOLDER = Path("/run") / leftovers.GROUP
NETWORK = "10.77.0"  # where hosts are, but those of other zones of AWS
PREFIX = 19  # of the bridge's network, which is as small as one of AWS can be
FABRIC_NETWORK = "10.79.0"  # of hosts that have a second network, which this machine does not have
FABRIC_INTERFACE = "fab0"
MACHINE = f"{NETWORK}.254"  # this machine, on the bridge
LAPTOP, JUMP = "10.78.0.1", "10.78.0.2"  # the ends of the cable between the two
PACKAGES = ("openssh-server", "keepalived", "faketime", "nftables")
SCRIPTS = Path(__file__).parent
READY_HANG_S = 600
WATCHES, ENOUGH_WATCHES = Path("/proc/sys/fs/inotify/max_user_instances"), 2048


@dataclass(kw_only=True)
class Host:
    """A host that runs. Its disk is in memory."""

    name: str
    address: str
    process: subprocess.Popen[bytes]

    def ssh(self, command: str, given: str = "") -> str:
        """Runs a command over SSH as root, with this standard input; returns what it prints."""
        done = subprocess.run(
            ["ssh", "-F", str(FOLDER / "ssh_config"), self.name, command],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {command[:80]}: {done.stdout}{done.stderr}")
        return done.stdout

    def put(self, source: Path, target: str) -> None:
        """Copies a file or the content of a folder into a folder of the host: readable by all, and
        without Python's caches."""
        folder, what = (source, ".") if source.is_dir() else (source.parent, source.name)
        pack = ["tar", "--create", "--dereference", "--owner=0", "--group=0", "--mode=a+rX"]
        pack.append("--exclude=__pycache__")
        with subprocess.Popen(
            [*pack, f"--directory={folder}", what], stdout=subprocess.PIPE
        ) as tar:
            subprocess.run(
                [
                    "ssh", "-F", str(FOLDER / "ssh_config"), self.name,
                    f"mkdir -p {target} && tar --extract --directory={target}",
                ],
                stdin=tar.stdout,
                check=True,
                capture_output=True,
                timeout=60,
            )  # fmt: skip

    def written(self, folder: str) -> list[Path]:
        """What the host has written below a folder of its root, as this machine sees its disk."""
        return list((FOLDER / "places" / self.name / "up" / folder).rglob("*"))

    def give_python(self, version: str) -> None:
        """As if its distribution had this version of CPython."""
        self.put(usr_of(version), "/usr")
        self.ssh(f"ln -sf python{version} /usr/bin/python3")

    def end(self) -> None:
        """As if its power was cut."""
        self.process.kill()
        self.process.wait()
        leftovers.wait_for_the_end_of(self.name)


def missing_to_run() -> str:
    """Why no hosts can run on this machine; empty if they can."""
    if os.geteuid():
        return "hosts with systemd need root"
    if not Path("/sys/fs/cgroup/systemd").is_dir():
        return "hosts with systemd need control groups of version 1"
    for program in ("apt-get", "ip", "nsenter", "setpriv", "ssh", "systemd", "unshare"):
        if shutil.which(program) is None:
            return f"hosts with systemd need the program {program}"
    done = subprocess.run(
        ["unshare", "-pmuiCn", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"this machine allows no namespaces: {done.stderr.strip()}" if done.returncode else ""


@contextmanager
def bed(
    addresses: Mapping[str, str],
    *,
    cache: Path,
    hidden: Sequence[Path],
    packages: Sequence[str] = (),
    fabric: Mapping[str, str] | None = None,
) -> Iterator[Bed]:
    """Starts a host for every name at its address, and ends all of them.

    `hidden` are folders of this machine that a host does not have, `packages` those of Debian that
    it has beside PACKAGES. Hosts with an address of `fabric` have FABRIC_INTERFACE as well.
    """
    archive = archive_with((*PACKAGES, *packages), cache)
    with Path("/run/lock", leftovers.GROUP).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        leftovers.remove(FOLDER)  # of a run that was killed together with its sweeper
        with _sweeper():
            made = Bed(addresses, archive=archive, hidden=hidden, fabric=fabric or {})
            try:
                for name in addresses:
                    made.start(name)
                made.wait_until_ready()
                yield made
            finally:
                for host in made.hosts.values():
                    host.end()


@contextmanager
def _sweeper() -> Iterator[None]:
    """Removes everything at the end, even if this process is killed."""
    script = Path(leftovers.__file__)
    with subprocess.Popen(
        [sys.executable, str(script), str(FOLDER)], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()
            code = process.wait()
    assert code == 0, "the sweeper has printed why"


class Bed:
    """Hosts on one bridge, to which this machine belongs, and some of them on another one."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        archive: Path,
        hidden: Sequence[Path],
        fabric: Mapping[str, str],
    ) -> None:
        self.addresses = addresses
        self.fabric = fabric
        self.archive = archive
        self.hidden = ":".join(map(str, hidden))
        self.hosts: dict[str, Host] = {}
        FOLDER.mkdir(mode=0o700)
        _allow_watches()
        _run("ip", "link", "add", leftovers.BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{MACHINE}/{PREFIX}", "dev", leftovers.BRIDGE)
        _run("ip", "link", "set", leftovers.BRIDGE, "up")
        _run("ip", "link", "add", leftovers.FABRIC, "type", "bridge")
        _run("ip", "link", "set", leftovers.FABRIC, "up")
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))
        for name in addresses:
            self._write_seed(name)
        self._write_ssh_config()

    @property
    def key(self) -> Path:
        """The private key that every host accepts for root."""
        return FOLDER / "key"

    @property
    def known_hosts(self) -> Path:
        """The public keys of all hosts, by address and by name."""
        return FOLDER / "known_hosts"

    def start(self, name: str, *, same_disk: bool = False) -> Host:
        """A host with an empty disk, or with that of an earlier one of this name."""
        place = FOLDER / "places" / name
        if not same_disk:
            leftovers.unmount(place)
            place.mkdir(parents=True, exist_ok=True)
            _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(place))
        groups = ":".join(map(str, leftovers.groups(name)))
        arguments = (groups, name, place, self.archive, FOLDER / "seeds" / name, self.hidden)
        process = subprocess.Popen(
            ["sh", str(SCRIPTS / "launch.sh"), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=(FOLDER / f"{name}.log").open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        host = Host(name=name, address=self.addresses[name], process=process)
        self._connect(host)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        self.hosts[name] = host
        return host

    @contextmanager
    def laptop(self, jump: str) -> Iterator[tuple[str, ...]]:
        """How a command enters a network of the operator's machine from which only this host can be
        reached, at JUMP."""
        with subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE) as laptop:
            place = f"/proc/{laptop.pid}/ns/net"
            here = Path("/proc/self/ns/net").readlink()
            while Path(place).readlink() == here:  # unshare has not begun
                time.sleep(0.005)
            jump_pid = first_process(self.hosts[jump].process)
            cable = ("link", "add", "laptop", "netns", str(laptop.pid), "type", "veth")
            _run("ip", *cable, "peer", "name", "outside", "netns", str(jump_pid))
            for namespace, card, address in (
                (place, "laptop", LAPTOP),
                (f"/proc/{jump_pid}/ns/net", "outside", JUMP),
            ):
                inside = ("nsenter", f"--net={namespace}", "ip")
                _run(*inside, "link", "set", "lo", "up")
                _run(*inside, "address", "add", f"{address}/24", "dev", card)
                _run(*inside, "link", "set", card, "up")
            with self.known_hosts.open("a") as known:
                known.write(f"{JUMP} {self._key_of(jump)}\n")
            yield ("nsenter", f"--net={place}")

    def _key_of(self, name: str) -> str:
        lines = self.known_hosts.read_text().splitlines()
        return next(line.partition(" ")[2] for line in lines if line.startswith(f"{name},"))

    def disconnect(self, name: str) -> None:
        """As if its cable was pulled out: packets to it and from it vanish."""
        _run("ip", "link", "set", _cable(self.addresses[name]), "nomaster")

    def connect_again(self, name: str) -> None:
        _run("ip", "link", "set", _cable(self.addresses[name]), "master", leftovers.BRIDGE)

    def cut_fabric(self, name: str) -> None:
        """Packets between this host and others vanish on the fabric only."""
        _run("ip", "link", "set", _cable(self.fabric[name]), "nomaster")

    def join_fabric_again(self, name: str) -> None:
        _run("ip", "link", "set", _cable(self.fabric[name]), "master", leftovers.FABRIC)

    def wait_until_ready(self) -> None:
        """Until every host answers over SSH."""
        for host in self.hosts.values():
            self.wait_for(host)

    def wait_for(self, host: Host) -> None:
        """Until the host answers over SSH."""
        deadline_s = time.monotonic() + READY_HANG_S
        while not _answers(host.address):
            log = (FOLDER / f"{host.name}.log").read_text()
            assert host.process.poll() is None, f"{host.name} has ended: {log}"
            assert time.monotonic() < deadline_s, f"{host.name} does not answer: {log}"
            time.sleep(0.05)
        host.ssh("systemctl is-system-running --wait || { systemctl --failed; false; }")

    def _connect(self, host: Host) -> None:
        """A cable from each bridge to the host, with the host's address at its end."""
        pid = first_process(host.process)
        _plug(pid, leftovers.BRIDGE, "eth0", host.address)
        if host.name in self.fabric:
            _plug(pid, leftovers.FABRIC, FABRIC_INTERFACE, self.fabric[host.name])

    def _write_seed(self, name: str) -> None:
        """Files that the host has from the beginning."""
        seed = FOLDER / "seeds" / name
        (seed / "etc" / "ssh").mkdir(parents=True)
        (seed / "etc" / "hostname").write_text(f"{name}\n")
        # Left empty, systemd would take the one that D-Bus has on this machine.
        (seed / "etc" / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        names = [f"{address} {other}" for other, address in self.addresses.items()]
        (seed / "etc" / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        host_key = seed / "etc" / "ssh" / "ssh_host_ed25519_key"
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(host_key))
        public = host_key.with_suffix(".pub").read_text().rpartition(" ")[0]
        with self.known_hosts.open("a") as known:
            known.write(f"{name},{self.addresses[name]} {public}\n")
        folder = seed / "root" / ".ssh"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())

    def _write_ssh_config(self) -> None:
        hosts = (
            f"Host {name}\n  HostName {address}\n  HostKeyAlias {name}\n"
            for name, address in self.addresses.items()
        )
        common = (
            "Host *\n  User root\n  BatchMode yes\n  StrictHostKeyChecking yes\n"
            f"  IdentityFile {self.key}\n  UserKnownHostsFile {self.known_hosts}\n"
            "  GlobalKnownHostsFile /dev/null\n  IdentitiesOnly yes\n"
        )
        (FOLDER / "ssh_config").write_text("".join((*hosts, common)))


def _allow_watches() -> None:
    """Every systemd and every Envoy of every host watches files, as one user of this machine, whose
    128 instances of inotify (the kernel's default) are those of a single host."""
    if int(WATCHES.read_text()) < ENOUGH_WATCHES:
        WATCHES.write_text(str(ENOUGH_WATCHES))


def _plug(pid: int, bridge: str, interface: str, address: str) -> None:
    """A cable from a bridge to the host with this process."""
    numbers, cable = address.split(".")[1:], _cable(address)
    # The kernel removes the cable of a host that has ended, but not at once.
    subprocess.run(["ip", "link", "delete", cable], check=False, capture_output=True)
    # As after a reboot: others would look for another address at the old one for a minute.
    card = ("address", "02:00:00:" + ":".join(f"{int(each):02x}" for each in numbers))
    peer = ("peer", "name", interface, *card, "netns", str(pid))
    _run("ip", "link", "add", cable, "type", "veth", *peer)
    _run("ip", "link", "set", cable, "master", bridge, "up")
    inside = ("nsenter", f"--net=/proc/{pid}/ns/net", "ip")
    _run(*inside, "link", "set", "lo", "up")
    _run(*inside, "address", "add", f"{address}/{PREFIX}", "dev", interface)
    _run(*inside, "link", "set", interface, "up")


def _cable(address: str) -> str:
    """The end of a host's cable at the bridge."""
    return "swb-" + "-".join(address.split(".")[1:])


def first_process(launched: subprocess.Popen[bytes]) -> int:
    """The host's first process, once unshare has started it."""
    children = Path(f"/proc/{launched.pid}/task/{launched.pid}/children")
    here = Path("/proc/self/ns/net").readlink()
    deadline_s = time.monotonic() + READY_HANG_S
    while True:
        assert launched.poll() is None, "the host ended before it began"
        for pid in children.read_text().split():
            # It may be a program that launch.sh ran, and that has ended.
            with suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{pid}/ns/net").readlink() != here:
                    return int(pid)
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=READY_HANG_S) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
