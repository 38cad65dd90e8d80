"""What hosts answer to a short command over SSH, asked several at once."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from cli.environment import Environment
from cli.errors import CliError
from cli.hosts.over_ssh import OverSsh, known_way
from cli.machine.ssh_agent import agent_for
from slipway.plan.platform import SshPlan

AT_ONCE = 16
ANSWER_S = 30.0


def answers(environment: Environment, ssh: SshPlan, commands: Mapping[str, str]) -> dict[str, str]:
    """By host, as are the `commands`. Hosts that do not answer, or say nothing, are left out."""
    with agent_for(ssh) as agent, ThreadPoolExecutor(AT_ONCE) as at_once:
        over_ssh = OverSsh(environment=environment, agent=agent)

        def answer(host: str) -> str:
            try:
                said = over_ssh.ask(host, known_way(ssh, host), commands[host], within_s=ANSWER_S)
            except CliError:
                return ""
            return said.strip()

        found = zip(commands, at_once.map(answer, commands), strict=True)
        return {host: said for host, said in found if said}
