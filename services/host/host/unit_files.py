"""The units of an environment's agents on a systemd host.

All have Type=exec, and the agent's `ready_url` says when it can be used: Consul notifies systemd
when it joins another agent, which a single server never does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from program.folders import Folders

from host.document import Agent, Unit
from host.prerequisites import AT_BOOT_S
from host.supervisor import MARK

PYTHON = "/usr/bin/python3"
ROOT = "root"
RESTART_S = 1
WATCHER = "log-collectors"
FIREWALL = "firewall"
START_MARGIN_S = 60
LIMITS = {"open_files": "LimitNOFILE", "locked_memory": "LimitMEMLOCK"}
# The kernel ends a task before an agent. Nomad gives every task 0 again.
OOM_SCORE = -500

# Options for a unit that reads only what everyone may read, writes nothing, and needs nothing
# unusual of the kernel.
SANDBOX = (
    ("UMask", "0077"),
    ("NoNewPrivileges", "yes"),
    ("AmbientCapabilities", ""),
    ("ProtectSystem", "strict"),
    ("ProtectHome", "yes"),
    ("PrivateTmp", "yes"),
    ("PrivateDevices", "yes"),
    ("ProtectControlGroups", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("ProtectClock", "yes"),
    ("ProtectHostname", "yes"),
    ("RestrictNamespaces", "yes"),
    ("RestrictRealtime", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("LockPersonality", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("RemoveIPC", "yes"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallFilter", "@system-service"),
    ("SystemCallFilter", "~@privileged @resources"),
    ("SystemCallErrorNumber", "EPERM"),
)
# An agent that runs no tasks talks to the network, and writes into its data folder.
SANDBOX_OF_AGENT = (
    *SANDBOX,
    ("CapabilityBoundingSet", ""),
    ("ProtectProc", "invisible"),
    ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_NETLINK"),
)
# Reads /proc of every process, and asks systemd over its socket.
SANDBOX_OF_WATCHER = (
    *SANDBOX,
    ("CapabilityBoundingSet", "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"),
    ("RestrictAddressFamilies", "AF_UNIX"),
    ("PrivateNetwork", "yes"),
)
# Changes the tables of nftables, by a program that asks the kernel over netlink.
SANDBOX_OF_FIREWALL = (
    *SANDBOX,
    ("CapabilityBoundingSet", "CAP_NET_ADMIN"),
    ("RestrictAddressFamilies", "AF_NETLINK"),
)
# Restrictions of the agent that runs tasks; tasks inherit them, so only those that tasks can live
# with. No option here may give the agent a mount namespace (ProtectSystem, PrivateTmp and most
# others do): a restarted agent would not see the mounts of its running tasks. None may be about
# devices: ProtectClock takes the GPUs away.
SANDBOX_OF_TASKS = (
    ("UMask", "0022"),
    (
        "CapabilityBoundingSet",
        "~CAP_SYS_BOOT CAP_SYS_TIME CAP_SYS_PACCT CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_MAC_ADMIN "
        "CAP_MAC_OVERRIDE",
    ),
    ("LockPersonality", "yes"),
    ("SystemCallArchitectures", "native"),
)
# Tasks are in the agent's control group.
ROOM_FOR_TASKS = (
    ("KillMode", "process"),
    ("OOMPolicy", "continue"),
    ("TasksMax", "infinity"),
    ("LimitNPROC", "infinity"),
)


def unit_name(folders: Folders, agent: str) -> str:
    return f"slipway-{folders.run.name}-{agent}.service"


def code(folders: Folders) -> Path:
    """A link to the code that was applied last: units do not change with every version of it."""
    return folders.supervisor / "code"


def agent_unit(
    agent: Agent, unit: Unit, folders: Folders, *, waits: bool, guarded: bool = False
) -> str:
    """`waits`: the agent has prerequisites in the cluster. `guarded`: the host has a firewall of
    members, without which no task starts."""
    before = [unit_name(folders, name) for name in unit.after]
    beside = [WATCHER, FIREWALL] if guarded else [WATCHER]
    wanted = [unit_name(folders, name) for name in beside] if unit.runs_tasks else []
    return _text(
        ("Unit", _description(agent.name, folders, before, [*before, *wanted])),
        ("Service", _service(agent, unit, folders, waits=waits, guarded=guarded)),
        ("Install", [("WantedBy", "multi-user.target")]),
    )


def watcher_unit(folders: Folders) -> str:
    """Of log_collectors.py: started by the unit of the agent that runs tasks."""
    script = (PYTHON, "-B", str(code(folders) / "log_collectors.py"), "--every-s=5")
    return _text(
        ("Unit", _description("log collectors of tasks", folders, [], [])),
        (
            "Service",
            [
                ("Type", "exec"),
                ("ExecStart", _command(script)),
                *(("Environment", _quoted(each)) for each in _folders(folders)),
                ("Restart", "always"),
                ("RestartSec", str(RESTART_S)),
                *SANDBOX_OF_WATCHER,
            ],
        ),
    )


def firewall_unit(folders: Folders) -> str:
    """Of firewall.py: started by the unit of the agent that runs tasks."""
    script = (PYTHON, "-B", str(code(folders) / "firewall.py"), "keep")
    return _text(
        ("Unit", _description("firewall of members", folders, [], [])),
        (
            "Service",
            [
                ("Type", "exec"),
                ("ExecStart", _command(script)),
                *(("Environment", _quoted(each)) for each in _folders(folders)),
                ("Restart", "always"),
                ("RestartSec", str(RESTART_S)),
                *SANDBOX_OF_FIREWALL,
            ],
        ),
    )


def temporary_files(folders: Folders) -> str:
    """For tmpfiles.d: the scratch folder is there again after a reboot."""
    return f'd "{_escaped(str(folders.scratch))}" 0700 root root -\n'


def _description(
    what: str, folders: Folders, before: list[str], wanted: list[str]
) -> list[tuple[str, str]]:
    return [
        ("Description", f"Slipway {_escaped(folders.run.name)}: {what}"),
        ("Wants", " ".join(["network-online.target", *wanted])),
        ("After", " ".join(["network-online.target", *before])),
        ("StartLimitIntervalSec", "0"),
    ]


def _service(
    agent: Agent, unit: Unit, folders: Folders, *, waits: bool, guarded: bool
) -> Iterator[tuple[str, str]]:
    folder = folders.agent(agent.host, agent.name)
    yield from (("Type", "exec"), ("User", unit.user))
    yield "WorkingDirectory", _escaped(str(folder))
    yield "Environment", _quoted(f"{MARK}={folder}")
    if unit.runs_tasks:
        # Paths of Unix sockets (Nomad's plugins, engines) must not exceed 107 characters.
        yield "Environment", _quoted(f"TMPDIR={folders.scratch}")
    if unit.runs_tasks and guarded:
        yield "ExecStartPre", _command(_with_folders(folders, "firewall.py", "load"))
    if waits:
        # If the wait fails, the agent starts nevertheless (-), because its tasks need it.
        awaited = _with_folders(folders, "agents.py", "await", agent.name)
        yield "ExecStartPre", f"-{_command(awaited)}"
        yield "TimeoutStartSec", str(AT_BOOT_S + START_MARGIN_S)
    yield "ExecStart", _command(agent.command)
    yield "ExecReload", "/bin/kill -HUP $MAINPID"
    yield from (("Restart", "always"), ("RestartSec", str(RESTART_S)))
    yield "TimeoutStopSec", str(agent.stop_timeout_s)
    yield from ((LIMITS[name], str(limit)) for name, limit in sorted(unit.limits.items()))
    yield "OOMScoreAdjust", str(OOM_SCORE)
    if unit.runs_tasks:
        yield from (*ROOM_FOR_TASKS, *SANDBOX_OF_TASKS)
    else:
        yield from (*SANDBOX_OF_AGENT, ("ReadWritePaths", _quoted(str(folder / "data"))))


def _with_folders(folders: Folders, script: str, *arguments: str) -> tuple[str, ...]:
    """How a unit runs one of this code's programs beside its own."""
    path = str(code(folders) / script)
    return ("/usr/bin/env", *_folders(folders), PYTHON, "-B", path, *arguments)


def _folders(folders: Folders) -> tuple[str, ...]:
    return (
        f"SLIPWAY_RUN={folders.run}",
        f"SLIPWAY_CACHE={folders.cache}",
        f"SLIPWAY_SCRATCH={folders.scratch}",
    )


def _command(arguments: tuple[str, ...]) -> str:
    """Quoted where necessary, and without systemd's own meaning of $."""
    return " ".join(_quoted(each).replace("$", "$$") for each in arguments)


def _quoted(text: str) -> str:
    escaped = _escaped(text)
    plain = text and not set(text) & set(" \t'\"\\;")
    return escaped if plain else '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _text(*sections: tuple[str, Iterator[tuple[str, str]] | list[tuple[str, str]]]) -> str:
    return "\n".join(
        "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in options), ""])
        for name, options in sections
    )
