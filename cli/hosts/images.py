"""Whether hosts still have the image in which their engines run.

A task must not wait for a download, and what cleans up a host's Docker may have removed it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from cli.environment import Environment
from cli.errors import CliError
from cli.hosts.over_ssh import OverSsh, known_way
from cli.machine.ssh_agent import agent_for
from cli.progress import Phases
from slipway.plan.platform import PlatformPlan

AT_ONCE = 16
ANSWER_S = 30.0
ASK = "docker image inspect --format there {image} 2> /dev/null || echo gone"


def hosts_without_image(
    environment: Environment, plan: PlatformPlan, delivered: Collection[str], phases: Phases
) -> set[str]:
    """Those of the `delivered` hosts whose Docker says so. One that does not answer has troubles of
    its own, which `status` and the next delivery name."""
    images = {
        node.name: pool.image.name
        for pool in plan.pools
        if pool.image is not None
        for node in pool.hosts
        if node.name in delivered
    }
    if plan.ssh is None or not images:
        return set()
    ssh = plan.ssh
    with (
        phases.phase("images", "whether hosts still have theirs"),
        agent_for(ssh) as agent,
        ThreadPoolExecutor(AT_ONCE) as at_once,
    ):
        over_ssh = OverSsh(environment=environment, agent=agent)

        def has_gone(host: str) -> bool:
            command = ASK.format(image=shlex.quote(images[host]))
            try:
                answer = over_ssh.ask(host, known_way(ssh, host), command, within_s=ANSWER_S)
            except CliError:
                return False
            return answer.strip() == "gone"

        answers = at_once.map(has_gone, images)
        return {host for host, gone in zip(images, answers, strict=True) if gone}
