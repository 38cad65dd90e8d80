"""Whether hosts still have the image in which their engines run.

A task must not wait for a download, and what cleans up a host's Docker may have removed it.
"""

from __future__ import annotations

import shlex
from concurrent.futures import ThreadPoolExecutor

from cli.environment import Environment
from cli.errors import CliError
from cli.hosts.over_ssh import OverSsh, known_way
from cli.machine.ssh_agent import agent_for
from cli.progress import Phases
from cli.pulumi.host_repairs import delivered_hosts
from slipway.plan.platform import PlatformPlan

AT_ONCE = 16
ANSWER_S = 30.0
ASK = "docker image inspect --format there {image} 2> /dev/null || echo gone"


def hosts_without_image(
    environment: Environment, plan: PlatformPlan, exported: str, phases: Phases
) -> set[str]:
    """Delivered hosts, per the exported stack, whose Docker no longer has the image. A host that
    does not answer is left to `status` and the next delivery, which say why."""
    ssh = plan.ssh
    if ssh is None:
        return set()
    of_pools = {
        node.name: pool.image.name
        for pool in plan.pools
        if pool.image is not None
        for node in pool.hosts
    }
    if not of_pools:
        return set()
    delivered = delivered_hosts(exported)
    images = {host: image for host, image in of_pools.items() if host in delivered}
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
