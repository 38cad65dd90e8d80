"""Kills one process of a running platform and measures how the platform recovers.

Load runs over both protocols of a model with two replicas: the model whose replica is killed, else
the simulated one. Two times are measured from the kill: until new clients have an answer over each
protocol, and until the platform is back at full strength, with the same processes and the same
`slipway status` as before.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from cli.applied import require
from cli.certificates import platform
from cli.clusters.snapshot import take_snapshot
from cli.environment import find
from cli.hosts.troubles import HERE
from tests.live.environments import Platform
from tests.live.processes import Process, kinds, processes_of
from tests.live.shared_memory import unused, used_by
from tests.live.streaming import Answer, Load
from tests.waiting import HANG_S

LOOK_S = 0.25
HANDLED_POLICIES = re.compile(r"^nomad_autoscaler_policy_total_num (\S+)$", re.MULTILINE)
AUTOSCALER = "autoscaler of nomad-autoscaler"
SIMULATED = "sim-a"
REAL = "smollm2"
# A real answer of this length takes about a second. Clients without pauses would halve the speed at
# which a small machine loads another replica.
ANSWER_TOKENS = {SIMULATED: 64, REAL: 16}
PAUSE_S = {SIMULATED: 0, REAL: 4}
# Short-lived: processes of a prestart step, of a check that runs every few seconds, and of Nomad's
# executors, which list their task's processes this way where they have no control groups.
FLEETING = ("logmon of weights", "check of policies", "other: pgrep -P ")
STEADY_LOOKS = 3  # full strength has to last


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of process to kill. `kind` is a prefix of `processes.Process.kind`.

    Every task has an executor and a logmon: `job` chooses those of a job. `model` is under load
    meanwhile.
    """

    name: str
    kind: str
    job: str = ""
    model: str = SIMULATED


PARTS = (
    Part(name="replica (simulated)", kind="simulator of model-sim-a-"),
    Part(name="its watcher", kind="watcher of model-sim-a-"),
    Part(name="its executor", kind="executor of server", job="model-sim-a-"),
    Part(name="its logmon", kind="logmon of server", job="model-sim-a-"),
    Part(name="Envoy", kind="envoy of envoy"),
    Part(name="Envoy's executor", kind="executor of envoy"),
    Part(name="Envoy's logmon", kind="logmon of envoy"),
    Part(name="xDS", kind="xds of xds"),
    Part(name="xDS's executor", kind="executor of xds"),
    Part(name="Prometheus", kind="prometheus of prometheus"),
    Part(name="Nomad Autoscaler", kind=AUTOSCALER),
    Part(name="its proxy", kind="envoy of nomad-autoscaler"),
    Part(name="Nomad client, replicas' node", kind="nomad on cpu-0"),
    Part(name="Nomad client, gateway's node", kind="nomad on edge-0"),
    Part(name="Nomad server", kind="nomad on server-0"),
    Part(name="Consul client, replicas' node", kind="consul on cpu-0"),
    Part(name="Consul client, gateway's node", kind="consul on edge-0"),
    Part(name="Consul server", kind="consul on server-0"),
    Part(name="watcher of log collectors", kind="watcher of log collectors"),
    Part(name="real replica: guard", kind="guard of ", model=REAL),
    Part(name="real replica: launcher", kind="launcher of model-smollm2-", model=REAL),
    Part(name="real replica: vLLM API server", kind="API server of model-smollm2-", model=REAL),
    Part(name="real replica: EngineCore", kind="engine core of model-smollm2-", model=REAL),
    Part(
        name="real replica: resource tracker", kind="resource tracker of model-smollm2-", model=REAL
    ),
    Part(name="real replica: fork server", kind="fork server of model-smollm2-", model=REAL),
    Part(name="real replica: tritonserver", kind="tritonserver of model-smollm2-", model=REAL),
    Part(name="real replica: stub", kind="stub of model-smollm2-", model=REAL),
    Part(
        name="real replica: executor", kind="executor of server", job="model-smollm2-", model=REAL
    ),
)

# Separate, because nothing restarts supervisord. Traffic goes on, and `slipway start` brings it
# back.
SUPERVISORD = Part(name="supervisord", kind="supervisord")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Seconds after the kill, None if it did not happen in time.

    `lacked` has what was missing or different, and until how many seconds after the kill; where the
    platform is not back in time, only what was at last. `failed_later` are those of requests that
    began when new clients had been answered.
    """

    part: str
    first_answer_s: float | None
    full_strength_s: float | None
    requests: int
    failed: list[str]
    failed_later: list[str]
    lacked: dict[str, float] = field(default_factory=dict)
    left_shared_memory: list[str] = field(default_factory=list)

    @property
    def missing(self) -> str:
        """What was still missing or different when the time was over."""
        return "" if self.full_strength_s is not None else "; ".join(self.lacked)


class Watched:
    """A running environment, and its state before the first kill."""

    def __init__(self, checkout: Path, cache: Path, name: str) -> None:
        self._environment = find(name, checkout=checkout, cache=cache)
        self._applied = require(self._environment)
        self.http, self.grpc = self._applied.gateway_http, self._applied.gateway_grpc
        self.run = self._environment.run

    def processes(self) -> list[Process]:
        return processes_of(self.run, self._environment.scratch)

    def status(self) -> dict[str, Any]:
        return take_snapshot(self._environment, self._applied, HERE)

    def strength(self) -> Strength:
        return Strength.of(self)

    def find(self, part: Part) -> Process:
        """The first process of a part. AssertionError if there is none."""
        found = sorted(
            (p for p in self.processes() if p.kind.startswith(part.kind) and self._is_of(p, part)),
            key=lambda process: process.pid,
        )
        assert found, f"no process {part.kind!r}"
        return found[0]

    def _is_of(self, process: Process, part: Part) -> bool:
        if not part.job:
            return True
        jobs: dict[str, str] = {r["allocation"]: r["job"] for r in self.status()["replicas"]}
        return jobs.get(process.allocation, "").startswith(part.job)


async def kill(process: Process) -> None:
    """Sends SIGKILL, and waits until the kernel has closed the sockets of the process and of the
    task that ends with it: until then they accept requests, which are lost like those in flight."""
    with ExitStack() as watched:
        pids = (process.pid, *_ending_with(process))
        ends = [watched.enter_context(_end_of(pid)) for pid in pids]
        os.kill(process.pid, signal.SIGKILL)
        async with asyncio.timeout(HANG_S):
            for end in ends:
                await end.wait()


def _ending_with(process: Process) -> list[int]:
    """What the kernel ends with an executor (components.nomad.jobspec.ENDS_WITH_ITS_EXECUTOR), and
    with a simulator's watcher in the same way."""
    if not process.kind.startswith(("executor of ", "watcher of model-")):
        return []
    return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]


@contextmanager
def _end_of(pid: int) -> Iterator[asyncio.Event]:
    """Set when the process has ended, or if it had already gone."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    try:
        process_fd = os.pidfd_open(pid)
    except ProcessLookupError:  # of what an executor runs for a moment to list its processes
        ended.set()
        yield ended
        return
    loop.add_reader(process_fd, ended.set)
    try:
        yield ended
    finally:
        loop.remove_reader(process_fd)
        os.close(process_fd)


async def kill_and_watch(platform: Watched, part: Part) -> Recovery:
    """Kills one process of `part` under load and waits until everything is as before."""
    before = await settled(platform)
    shared = used_by(process.pid for process in platform.processes())
    async with load_on(platform, part.model) as load:
        await load.answered(part.model, after=load.sent)
        victim = await asyncio.to_thread(platform.find, part)
        killed_s = time.monotonic()
        await kill(victim)
        newcomers = load_on(platform, part.model)
        first_answer = asyncio.create_task(_first_answer(newcomers, part.model))
        full_strength_s, lacked = await full_strength(platform, before, killed_s, victim=victim)
        answered_s = await first_answer
    answers = load.answers[part.model] + newcomers.answers[part.model]
    failures = [answer for answer in answers if answer.error]
    return Recovery(
        part=part.name,
        first_answer_s=None if answered_s is None else answered_s - killed_s,
        full_strength_s=full_strength_s,
        requests=len(answers),
        failed=[_failure(each, killed_s) for each in failures],
        failed_later=[
            _failure(each, killed_s)
            for each in failures
            if answered_s is not None and each.started_s > answered_s
        ],
        lacked=lacked,
        left_shared_memory=unused(shared),
    )


def _failure(answer: Answer, killed_s: float) -> str:
    return f"{answer.error} after {answer.ended_s - killed_s:.1f} s"


async def kill_supervisord(environment: Platform, platform: Watched) -> Recovery:
    """Nothing restarts it automatically: `slipway start` does, while traffic goes on."""
    before = await settled(platform)
    victim = platform.find(SUPERVISORD)
    async with load_on(platform, SIMULATED) as load:
        killed_s = time.monotonic()
        await kill(victim)
        first_answer_s = await load.answered(SIMULATED, after=load.sent) - killed_s
        await asyncio.to_thread(environment.slipway, "start")
        full_strength_s, lacked = await full_strength(platform, before, killed_s, victim=victim)
    return Recovery(
        part=f"{SUPERVISORD.name}, then `slipway start`",
        first_answer_s=first_answer_s,
        full_strength_s=full_strength_s,
        requests=len(load.answers[SIMULATED]),
        failed=load.failures,
        failed_later=[],
        lacked=lacked,
    )


def load_on(platform: Watched | Platform, model: str) -> Load:
    """One stream over each protocol."""
    return Load(
        platform.http,
        platform.grpc,
        [model],
        streams_per_protocol=1,
        parameters={"max_tokens": ANSWER_TOKENS[model]},
        pause_s=PAUSE_S[model],
    )


async def settled(platform: Watched) -> Strength:
    """The platform when nothing is wrong with it, e.g. when earlier replicas have drained."""
    deadline_s = time.monotonic() + HANG_S
    while (now := await asyncio.to_thread(platform.strength)).wrong:
        assert time.monotonic() < deadline_s, f"not at full strength: {now.wrong}"
        await asyncio.sleep(LOOK_S)
    return now


async def _first_answer(newcomers: Load, model: str) -> float | None:
    """When new clients had been answered over both protocols."""
    try:
        async with newcomers, asyncio.timeout(HANG_S):
            return await newcomers.answered(model)
    except TimeoutError:
        return None


async def full_strength(
    platform: Watched, before: Strength, began_s: float, *, victim: Process | None = None
) -> tuple[float | None, dict[str, float]]:
    """Seconds until several successive looks find the platform as before, and what it lacked."""
    deadline_s = time.monotonic() + HANG_S
    looks, since_s, lacked, missing = 0, 0.0, dict[str, float](), list[str]()
    while time.monotonic() < deadline_s:
        now = await asyncio.to_thread(Strength.of, platform)
        missing = list(now.lacks(before, victim))
        looks = looks + 1 if not missing else 0
        lacked |= dict.fromkeys(missing, time.monotonic() - began_s)
        since_s = time.monotonic() if looks == 1 else since_s
        if looks == STEADY_LOOKS:
            return since_s - began_s, lacked
        # The state is in many places: there is no single event to wait for.
        await asyncio.sleep(LOOK_S)
    return None, {reason: lacked[reason] for reason in missing}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """What runs. `wrong` has what is always wrong, whatever the state before."""

    pids: frozenset[int]
    kinds: Counter[str]
    endpoints: Counter[str]  # healthy ones that accept connections, by Envoy's cluster
    jobs: dict[str, int]  # running allocations
    nodes: frozenset[str]  # ready and eligible
    wrong: tuple[str, ...]

    @classmethod
    def of(cls, platform: Watched) -> Strength:
        status = platform.status()
        processes = platform.processes()
        healthy = [e for e in status["endpoints"] if e["healthy"] and _accepts(e["address"])]
        return cls(
            pids=frozenset(process.pid for process in processes),
            kinds=kinds(p for p in processes if not p.kind.startswith(FLEETING)),
            endpoints=Counter(endpoint["cluster"] for endpoint in healthy),
            jobs={job["id"]: job["running"] for job in status["jobs"]},
            nodes=frozenset(
                node["name"]
                for node in status["nodes"]
                if node["status"] == "ready" and node["eligible"]
            ),
            wrong=(
                *_wrong(status, processes),
                *_silent_agents(platform.run),
                *_forgotten_policies(status, processes),
            ),
        )

    def lacks(self, before: Strength, victim: Process | None = None) -> Iterator[str]:
        """What is missing or different; `victim` was killed meanwhile."""
        yield from self.wrong
        if victim and victim.pid in self.pids:
            yield f"pid {victim.pid} still lives"
        for what, counted, was in (
            ("processes", self.kinds, before.kinds),
            ("endpoints", self.endpoints, before.endpoints),
            ("allocations", self.jobs, before.jobs),
        ):
            for name in sorted(was.keys() | counted.keys()):
                if counted.get(name) != was.get(name):  # a job with no allocation is still a job
                    yield f"{counted.get(name, 0)} instead of {was.get(name, 0)} {what}: {name}"
        if self.nodes != before.nodes:
            yield f"nodes {sorted(self.nodes)}"


def _wrong(status: dict[str, Any], processes: list[Process]) -> Iterator[str]:
    for part, reason in status["unreachable"].items():
        yield f"{part} does not answer: {reason}"
    for name, model in status["models"].items():
        if not (model["ready"] and model["acknowledged"]):
            yield f"model {name} is not ready"
    for target in status["targets"]:
        if not target["up"]:
            yield f"Prometheus cannot scrape {target['address']}: {target['error']}"
    for job in status["jobs"]:
        if job["waiting"]:
            yield f"{job['waiting']} of {job['id']} wait"
    allocations = {replica["allocation"] for replica in status["replicas"]}
    for process in processes:
        if process.allocation and process.allocation not in allocations:
            yield f"orphaned: {process.kind} (pid {process.pid})"


def _silent_agents(run: Path) -> Iterator[str]:
    for record in run.glob("nodes/*/*/program.json"):
        url = json.loads(record.read_text())["ready_url"]
        try:
            httpx.get(url, timeout=HANG_S, verify=platform(run / "operator")).raise_for_status()
        except httpx.HTTPError as error:
            yield f"{record.parent.name} on {record.parent.parent.name}: {error!r}"


def _forgotten_policies(status: dict[str, Any], processes: list[Process]) -> Iterator[str]:
    """An autoscaler that has lost its policies still reports that it is healthy. Its own port on
    loopback is asked: the one with TLS answers Prometheus only."""
    models = sum(job["id"].startswith("model-") for job in status["jobs"])
    autoscalers = [process for process in processes if process.kind == AUTOSCALER]
    if not autoscalers:  # its check has it restarted where it handles too few
        yield "the autoscaler does not run"
    for process in autoscalers:
        try:
            text = httpx.get(
                f"http://{_listens_at(process.pid)}/v1/metrics?format=prometheus", timeout=HANG_S
            ).text
        except (httpx.HTTPError, psutil.Error) as error:  # it starts or ends
            yield f"the autoscaler does not answer: {error!r}"
            continue
        found = HANDLED_POLICIES.search(text)
        if not found or float(found[1]) != models:
            yield f"{found and found[1]} of {models} scaling policies are handled"


def _listens_at(pid: int) -> str:
    """ "host:port" of the one TCP port of a process; of none if it has not bound it yet."""
    found = psutil.Process(pid).net_connections("tcp")
    bound = [each.laddr for each in found if each.status == psutil.CONN_LISTEN]
    return f"{bound[0].ip}:{bound[0].port}" if bound else ""


def _accepts(address: str) -> bool:
    """Whether something listens at "host:port"."""
    host, port = address.rsplit(":", 1)
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=HANG_S):
        return True
    return False
