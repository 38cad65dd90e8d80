"""The requirements that a host must meet before anything is brought there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cli.environment import Environment
from cli.errors import CliError
from cli.hosts.over_ssh import OverSsh, known_way
from cli.machine.checks import Check
from cli.machine.ssh_agent import agent_for
from components.hosts.delivery import delivery_document
from slipway.plan.platform import PlatformPlan, SshPlan

EXAMINED_S = 60.0
OTHER_KEY = "Host key verification failed"


def host_checks(
    environment: Environment, plan: PlatformPlan, ssh: SshPlan, host: str
) -> Iterator[Check]:
    """Every requirement, met or not; nothing of the platform needs to be there. A host that cannot
    be reached has one failed check that says why."""
    try:
        known_way(ssh, host)
    except CliError as error:
        yield Check(name="host key", state="fail", detail=error.message, fix=error.fix)
        return
    try:
        with agent_for(ssh) as agent:
            over_ssh = OverSsh(environment=environment, agent=agent)
            report = over_ssh.examine(delivery_document(plan, ssh, host), within_s=EXAMINED_S)
    except CliError as error:
        yield Check(name="SSH", state="fail", detail=error.message, fix=error.fix)
        return
    if "unreachable" in report:
        yield _unreachable(report)
        return
    place = ssh.hosts[host]
    yield Check(name="SSH", state="ok", detail=f"{place.user}@{place.address}, port {place.port}")
    yield Check(name="host key", state="ok", detail=f"the one in {ssh.known_hosts}")
    for each in report["requirements"]:
        if each["wrong"]:
            detail = f"{host} {each['wrong']}"
            yield Check(name=each["name"], state="fail", detail=detail, fix=each["fix"])
        else:
            yield Check(name=each["name"], state="ok", detail=each["found"])


def _unreachable(report: Mapping[str, Any]) -> Check:
    said = report["unreachable"]
    return Check(
        name="host key" if OTHER_KEY in said else "SSH",
        state="fail",
        detail=said,
        fix=report["fix"],
    )
