"""The devices of a host, which its device plugin watches (services/devices)."""

from __future__ import annotations

import shlex

from cli.console import say
from cli.hosts.over_ssh import OverSsh, known_way
from components.hosts.delivery import run_folder
from components.nomad.agent_config import DEVICE_RECORD
from slipway.plan.platform import PlatformPlan, SshPlan

ANSWERS_S = 60.0
REQUEST_SUFFIX = ".return"  # as services/devices/health/record.py has it


def are_watched(plan: PlatformPlan, host: str) -> bool:
    watched = (pool for pool in plan.pools if pool.device_plugin is not None)
    return any(node.name == host for pool in watched for node in pool.hosts)


def look_again(plan: PlatformPlan, ssh: SshPlan, over_ssh: OverSsh, host: str) -> None:
    """Has the plugin forget the faults of the host's devices and look at each again."""
    record = f"{run_folder(plan.environment)}/nodes/{host}/nomad/data/{DEVICE_RECORD}"
    ask = f"[ ! -e {shlex.quote(record)} ] || touch {shlex.quote(record + REQUEST_SUFFIX)}"
    over_ssh.ask(host, known_way(ssh, host), ask, within_s=ANSWERS_S)
    say(f"{host} checks its devices again; those that are still faulty get no work")
