"""Replicas over two hosts each, in an environment of a test bed with a network for the fabric."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from cli import certificates
from tests.hosts import leftovers
from tests.hosts.accelerators import task_processes
from tests.hosts.bed import FABRIC_INTERFACE, FABRIC_NETWORK, NETWORK, Bed
from tests.hosts.environment import NAME, Checkout, listed
from tests.live.environments import SIMULATED_ENGINE

SERVER, EDGE = f"{NETWORK}.11", f"{NETWORK}.31"
WORKERS = {f"worker-{k}": f"{NETWORK}.4{1 + k}" for k in range(8)}  # of four groups
FABRIC = {f"worker-{k}": f"{FABRIC_NETWORK}.4{1 + k}" for k in range(8)}
ADDRESSES = {"server-0": SERVER, **WORKERS, "edge-0": EDGE}
NOMAD, CONSUL = f"https://{SERVER}:4646", f"https://{SERVER}:8501"
MEMBERS = 2
MEETING = ("--master-addr", "--master-port")  # options of an engine, with vLLM's names
SILENCE_S, STALL_S, LOAD_S = 5, 10, 60
POOLS = {
    "cpu": {
        "kind": "metal",
        "hosts": listed(WORKERS),
        "memory": "2GiB",
        "cpu": 2,
        "fabric": {
            "kind": "tcp",
            "allow_tcp": True,
            "control_interface": "eth0",
            "interfaces": [FABRIC_INTERFACE],
            "member_silence_s": SILENCE_S,
        },
    },
    "edge": {"kind": "metal", "hosts": listed({"edge-0": EDGE}), "memory": "4GiB", "cpu": 2},
}
SETTINGS: Mapping[str, Any] = {
    "pools": POOLS,
    "gateway": {"pool": "edge"},
    "autoscaling": {"evaluation_interval_s": 3600},  # the tests decide the counts
}
LOG = f"/var/lib/slipway/{NAME}/nodes/edge-0/nomad/data/alloc/*/alloc/logs/envoy.stdout.*"


def write_model(checkout: Checkout, name: str = "sim-a", **engine: Any) -> None:
    """A simulated model in two stages, on a host each. Its answers are slow, so that streams are
    under way whenever something happens."""
    document = {
        "name": name,
        "parallel": {"pipeline": MEMBERS},
        "engine": {**SIMULATED_ENGINE, "engine_args": {"time_scale": 4}, **engine},
        "timeouts": {"load_s": LOAD_S},
        "routing": {"stall_s": STALL_S},
    }
    (checkout.folder / f"models/{name}.yaml").write_text(yaml.safe_dump(document))


@dataclass(frozen=True, kw_only=True)
class Member:
    """An allocation that should run, and does so if `running`."""

    job: str
    index: int
    allocation: str
    host: str
    running: bool

    @property
    def group(self) -> tuple[str, int]:
        return self.job, self.index // MEMBERS

    @property
    def rank(self) -> int:
        return self.index % MEMBERS


def members(checkout: Checkout, model: str = "sim-a") -> list[Member]:
    """Of the model's current job, by index."""
    found = []
    for each in checkout.ask(f"{NOMAD}/v1/allocations?task_states=false"):
        index = re.fullmatch(rf"(model-{model}-[0-9a-f]+)[.]replica\[(\d+)\]", each["Name"])
        alive = each["ClientStatus"] in ("pending", "running")
        if index and each["DesiredStatus"] == "run" and alive:
            found.append(
                Member(
                    job=index[1],
                    index=int(index[2]),
                    allocation=each["ID"],
                    host=each["NodeName"],
                    running=each["ClientStatus"] == "running",
                )
            )
    return sorted(found, key=lambda each: (each.job, each.index))


def hosts_of_allocations(checkout: Checkout) -> dict[str, str]:
    """Of all, also those that have ended."""
    return {each["ID"]: each["NodeName"] for each in checkout.ask(f"{NOMAD}/v1/allocations")}


def whole(checkout: Checkout, model: str = "sim-a") -> list[tuple[Member, ...]]:
    """Groups of which every member runs, and whose first passes its checks in Consul."""
    passing = {
        each["ServiceID"]
        for each in checkout.ask(f"{CONSUL}/v1/health/state/passing")
        if each["ServiceName"].endswith("-openai")
    }
    groups = defaultdict[tuple[str, int], list[Member]](list)
    for member in members(checkout, model):
        if member.running:
            groups[member.group].append(member)
    return [
        tuple(group)
        for group in groups.values()
        if len(group) == MEMBERS and any(group[0].allocation in service for service in passing)
    ]


def end_member(member: Member, sent: signal.Signals = signal.SIGKILL) -> None:
    """Sends a signal to its launcher and its engine; the proxy beside them lives on."""
    for pid in processes_of(member):
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, sent)


def processes_of(member: Member) -> list[int]:
    """Launchers first, so that none of them sees its engine end."""
    launchers = [
        each.pid
        for each in task_processes()
        if each.allocation == member.allocation and each.task == "server"
    ]
    return [*launchers, *(pid for launcher in launchers for pid in _children(launcher))]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A process of a member; members of one formation meet at one place."""

    pid: int
    allocation: str
    group: tuple[str, int]
    place: str


def engines() -> list[Engine]:
    """Those that run now, on all hosts of this bed."""
    found = []
    for pid in leftovers.processes():
        folder = Path(f"/proc/{pid}")
        with suppress(OSError):  # it ended
            command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "--master-port" in command and command[1].endswith("/engine_sim.py"):
                known = _variables(folder)
                where = (command[command.index(key) + 1] for key in MEETING)
                found.append(
                    Engine(
                        pid=pid,
                        allocation=known["NOMAD_ALLOC_ID"],
                        group=(known["NOMAD_JOB_ID"], int(known["NOMAD_ALLOC_INDEX"]) // MEMBERS),
                        place=":".join(where),
                    )
                )
    return found


def formations() -> dict[tuple[str, int], list[str]]:
    """Of groups with engines: where each of these meets the others."""
    found = defaultdict[tuple[str, int], list[str]](list)
    for engine in engines():
        found[engine.group].append(engine.place)
    return dict(found)


def has_formed(group: tuple[str, int], *, before: str) -> bool:
    """Whether all of its members have an engine of another formation than the one before."""
    places = formations().get(group, [])
    return len(places) == MEMBERS and len(set(places)) == 1 and before not in places


@contextmanager
def formations_watched(every_s: float = 0.2) -> Iterator[list[str]]:
    """Each moment at which engines of one group were in two formations. A test needs at least one
    look at engines: without any, this fails."""
    twice, over, looks = list[str](), threading.Event(), list[int]()

    def look_on() -> None:
        while not over.wait(every_s):
            found = formations()
            looks.append(len(found))
            twice.extend(
                f"{group}: {places}" for group, places in found.items() if len(set(places)) > 1
            )

    thread = threading.Thread(target=look_on)
    thread.start()
    try:
        yield twice
    finally:
        over.set()
        thread.join()
    assert any(looks)


# In a host's network: asks a launcher's page again and again, and says when the answer changes.
PAGE_WATCH = """\
import datetime, http.client, sys, time
last = None
while True:
    try:
        page = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=0.5)
        page.request("GET", "/slipway/live")
        status = page.getresponse().status
    except OSError:
        status = 0
    if status != last:
        now = datetime.datetime.now(datetime.timezone.utc)
        print(now.isoformat(timespec="milliseconds").replace("+00:00", "Z"), status, flush=True)
        last = status
    time.sleep(0.02)
"""


@dataclass(kw_only=True)
class Page:
    """A launcher's page over time. `left` is when it first said something else than 200, `back`
    when it said 200 after that; ISO 8601 in UTC, "" if it did not. Requests reach the group at
    `upstream`, an address and port."""

    upstream: str
    left: str = ""
    back: str = ""


@contextmanager
def page_watched(first: Member) -> Iterator[Page]:
    """That of a group's first member, whose host and ports stay the same."""
    launcher = processes_of(first)[0]
    known = _variables(Path(f"/proc/{launcher}"))
    port = known["NOMAD_PORT_liveness"]
    page = Page(upstream=f"{WORKERS[first.host]}:{known['NOMAD_PORT_openai']}")
    with subprocess.Popen(
        ["nsenter", f"--net=/proc/{launcher}/ns/net", sys.executable, "-c", PAGE_WATCH, port],
        stdout=subprocess.PIPE,
        text=True,
    ) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().endswith(" 200\n")

        def read(lines: Iterable[str]) -> None:
            for line in lines:
                moment, status = line.split()
                if status != "200":
                    page.left = page.left or moment
                elif page.left:
                    page.back = page.back or moment

        reader = threading.Thread(target=read, args=(watch.stdout,))
        reader.start()
        try:
            yield page
        finally:
            watch.kill()
            reader.join()


def _variables(process: Path) -> dict[str, str]:
    """Of its environment. Raises OSError if it has ended."""
    pairs = (process / "environ").read_bytes().decode(errors="replace").split("\0")
    return dict(each.partition("=")[::2] for each in pairs)


@dataclass(frozen=True, kw_only=True)
class Logged:
    """A request as the gateway's Envoy has logged it: when it began, where it went at last, and
    whether it was answered to its end."""

    began: str  # ISO 8601, in UTC
    upstream: str
    answered: bool


def logged(hosts: Bed) -> list[Logged]:
    """All requests for answers, in the order of their ends."""
    found = []
    for line in hosts.hosts["edge-0"].ssh(f"grep -h /v1/completions {LOG} || true").splitlines():
        with suppress(ValueError):  # a line that is being written
            entry = json.loads(line)
            answered = entry.get("status") == 200 and entry["details"] == "via_upstream"
            upstream = str(entry.get("upstream", ""))
            found.append(Logged(began=entry["time"], upstream=upstream, answered=answered))
    return found


@contextmanager
def envoy_of(checkout: Checkout) -> Iterator[httpx.Client]:
    """The gateway's Envoy, as the operator asks it."""
    verified = certificates.platform(checkout.operator)
    with httpx.Client(base_url=f"https://{EDGE}:9901", verify=verified) as client:
        yield client


def request_statistic(envoy: httpx.Client, upstream: str, name: str) -> int:
    """Of a group's requests: rq_active go on, rq_total were sent there."""
    found = re.search(
        rf"^model-\S+-openai::{re.escape(upstream)}::{name}::(\d+)$",
        envoy.get("/clusters").raise_for_status().text,
        re.MULTILINE,
    )
    return int(found[1]) if found else 0


def jobs(checkout: Checkout, model: str = "sim-a") -> Sequence[str]:
    """Those that are not stopped."""
    return [
        each["ID"]
        for each in checkout.ask(f"{NOMAD}/v1/jobs?meta=true")
        if (each["Meta"] or {}).get("slipway_model") == model and not each["Stop"]
    ]
