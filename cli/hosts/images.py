"""Whether hosts still have the image in which their engines run.

A task must not wait for a download, and what cleans up a host's Docker may have removed it.
"""

from __future__ import annotations

import shlex

from cli.environment import Environment
from cli.hosts.answers import answers
from cli.progress import Phases
from cli.pulumi.host_repairs import delivered_hosts
from slipway.plan.platform import PlatformPlan

GONE = "gone"
ASK = f"docker image inspect --format there {{image}} 2> /dev/null || echo {GONE}"


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
    if not images:
        return set()
    asked = {host: ASK.format(image=shlex.quote(image)) for host, image in images.items()}
    with phases.phase("images", "whether hosts still have theirs"):
        said = answers(environment, ssh, asked)
    return {host for host, answer in said.items() if answer == GONE}
