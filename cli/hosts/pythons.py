"""Packages for hosts whose Python is not the one of this machine's environments.

What hosts run, but for engines, runs with their own Python; its packages are made here once a host
needs them. Hosts that are known to have the Python of the environments are not asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from cli.environment import Environment
from cli.hosts.answers import answers
from cli.progress import Phases, ToolchainProgress
from cli.pulumi.host_repairs import delivered_pythons
from components.aws_pool.boot_document import node_artifacts
from components.hosts import artifacts
from components.hosts.delivery import OTHER_PYTHONS, PYTHON
from components.hosts.supervision import SYSTEM_PYTHON
from slipway.config.artifacts import REQUIREMENTS
from slipway.plan.platform import PlatformPlan
from toolchain.prepare import PackagesJob, prepare

ASK = f"{SYSTEM_PYTHON} -c 'import sys; print(*sys.version_info[:2], sep=\".\")'"
OF_ENVIRONMENTS = ".".join(map(str, PYTHON))


def make_packages(
    environment: Environment,
    plan: PlatformPlan,
    exported: str,
    phases: Phases,
    again: Collection[str] = (),
) -> set[str]:
    """Makes packages for hosts with another Python. Returns the hosts whose version has changed
    since their last delivery, according to the exported stack.

    Asks new hosts, those set up `again`, and those that had another version. One that does not
    answer is left to its delivery, which says why. Machines that this update creates cannot be
    asked, so there are packages for whatever they will have.
    """
    if plan.ssh is None:
        return set()
    _make_those_of_images(environment, plan, phases)
    _make_those_of_new_machines(environment, plan, phases)
    delivered = delivered_pythons(exported, OF_ENVIRONMENTS)
    known = delivered if plan.ssh.makes_host_keys else plan.ssh.hosts
    hosts = [
        host
        for host in plan.ssh.hosts
        if host in again or (host in known and delivered.get(host) != OF_ENVIRONMENTS)
    ]
    if not hosts:
        return set()
    with phases.phase("hosts", "the Python of each"):
        found = answers(environment, plan.ssh, dict.fromkeys(hosts, ASK))
        prepare(_jobs(environment, plan, found), environment.cache, ToolchainProgress())
    return {host for host, python in found.items() if delivered.get(host, python) != python}


def _make_those_of_images(environment: Environment, plan: PlatformPlan, phases: Phases) -> None:
    """An image has a Python of its own, which is not known before it is on a host."""
    of_images = {name for pool in plan.pools for name in artifacts.of_image(plan, pool)}
    names = artifacts.environments(of_images)
    if names:
        with phases.phase("images", "the packages that their Python uses"):
            wanted = {(name, python) for name in names for python in OTHER_PYTHONS}
            prepare(_packages(environment, wanted), environment.cache, ToolchainProgress())


def _make_those_of_new_machines(
    environment: Environment, plan: PlatformPlan, phases: Phases
) -> None:
    if plan.aws is None:
        return
    found = {each for host in plan.aws.hosts for each in artifacts.of_host(plan, host)}
    for pool in plan.aws.pools:
        found.update(node_artifacts(plan, plan.aws, plan.pool(pool)))
    names = set(artifacts.environments(found)).difference(artifacts.OF_ONE_PYTHON)
    with phases.phase("machines", "packages for the Pythons that they may have"):
        wanted = {(name, python) for name in names for python in OTHER_PYTHONS}
        prepare(_packages(environment, wanted), environment.cache, ToolchainProgress())


def _jobs(
    environment: Environment, plan: PlatformPlan, pythons: Mapping[str, str]
) -> Iterator[PackagesJob]:
    wanted: set[tuple[str, str]] = set()
    for host, python in pythons.items():
        names = set(artifacts.environments(artifacts.of_host(plan, host)))
        if python in OTHER_PYTHONS and names.isdisjoint(artifacts.OF_ONE_PYTHON):
            wanted.update((name, python) for name in names)
    return _packages(environment, wanted)


def _packages(environment: Environment, wanted: set[tuple[str, str]]) -> Iterator[PackagesJob]:
    """Of pairs: an environment's name, and a version of Python."""
    for name, python in sorted(wanted):
        requirements = environment.checkout / REQUIREMENTS[name]
        yield PackagesJob(name=name, requirements=requirements, python=python)
