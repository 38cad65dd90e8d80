"""The processes of one environment, by what each of them does."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_AGENT = re.compile(r"/nodes/([^/]+)/(consul|nomad|workload-keys)/config\.json$")
_ALLOCATION = re.compile(r"/data/alloc/([0-9a-f-]{36})/([^/]+)/executor\.out")
_LOG = re.compile(r"/data/alloc/([0-9a-f-]{36})/alloc/logs/([^/.]+)\.std")
# The first pattern found in a task's command line names what it does.
_TASK_PROGRAMS = (
    ("tritonserver", "bin/tritonserver"),
    ("stub", "triton_python_backend_stub"),
    ("engine core", "VLLM::EngineCore"),
    ("worker", "VLLM::Worker"),  # of a model that asks for one
    ("resource tracker", "multiprocessing.resource_tracker"),
    ("fork server", "slipway: fork server"),
    ("API server", "engine_server.py"),
    ("launcher", "launcher.py"),
    ("guard", "guard.py"),
    ("simulator", "engine_sim.py"),
    ("watcher", "watcher.py"),
    ("envoy", "bin/envoy-"),
    ("xds", "xds.py"),
    ("prometheus", "bin/prometheus-"),
    ("check of policies", "scaling_policies.py"),
    ("autoscaler", "bin/nomad-autoscaler-"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """`kind` says what it is, e.g. "nomad on cpu-0", "stub of model-smollm2-3f9c1a"."""

    pid: int
    parent: int
    kind: str
    allocation: str = ""


def processes_of(*folders: Path) -> list[Process]:
    """Every living process with one of an environment's folders (run folder, scratch folder) in its
    command line or its variables: agents, tasks, their children, and running commands."""
    texts = [str(folder) for folder in folders]
    return [
        process
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and int(entry.name) != os.getpid()
        for process in _read(entry, texts)
    ]


def kinds(processes: Iterable[Process]) -> Counter[str]:
    return Counter(process.kind for process in processes)


def _read(entry: Path, folders: list[str]) -> Iterator[Process]:
    try:
        # The name may contain spaces and parentheses: fields are counted from the last one.
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        argv = _strings(entry / "cmdline")
        environment = dict(
            text.partition("=")[::2] for text in _strings(entry / "environ") if "=" in text
        )
    except OSError:
        return  # gone meanwhile, or another user's
    places = [*argv, *environment.values()]
    if state == "Z" or not any(_is_below(place, f) for place in places for f in folders):
        return
    kind, allocation = _kind(entry, argv, environment)
    yield Process(pid=int(entry.name), parent=int(parent), kind=kind, allocation=allocation)


def _is_below(place: str, folder: str) -> bool:
    """Whether a text contains the folder or a path in it, not just a folder of a longer name."""
    return f"{folder}/" in f"{place}/"


def _kind(entry: Path, argv: list[str], environment: dict[str, str]) -> tuple[str, str]:
    command = " ".join(argv)
    allocation = environment.get("NOMAD_ALLOC_ID", "")
    if "supervisor.supervisord" in command:
        return "supervisord", ""
    if "log_collectors.py" in command:
        return "watcher of log collectors", ""
    for argument in argv:
        if agent := _AGENT.search(argument):
            return f"{agent[2]} on {agent[1]}", ""
    if argv[1:2] == ["executor"]:
        found = _ALLOCATION.search(command)
        return (f"executor of {found[2]}", found[1]) if found else ("executor", "")
    if argv[1:2] == ["logmon"]:
        return _logmon(entry)
    for name, pattern in _TASK_PROGRAMS:
        if pattern in command:
            return f"{name} of {environment.get('NOMAD_JOB_ID', '?')}", allocation
    return f"other: {command[:120]}", allocation


def _logmon(entry: Path) -> tuple[str, str]:
    """All have the same command line: the open log files show which task it belongs to."""
    with suppress(OSError):
        for descriptor in (entry / "fd").iterdir():
            if found := _LOG.search(str(descriptor.readlink())):
                return f"logmon of {found[2]}", found[1]
    return "logmon", ""


def _strings(path: Path) -> list[str]:
    return path.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
