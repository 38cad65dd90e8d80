"""Puts what a plan runs into this machine's cache: tools, environments, code and weights."""

from __future__ import annotations

from collections.abc import Iterator

from cli.console import say
from cli.environment import Environment
from cli.machine.bundles import copy_bundles
from cli.machine.weights import environment_of, prepare_weights
from cli.progress import Phases, ToolchainProgress
from slipway.config.artifacts import REQUIREMENTS
from slipway.inputs import PlanInputs
from slipway.plan.platform import DevicePluginPlan, PlatformPlan
from toolchain.errors import ToolchainError
from toolchain.leftovers import has_build_leftovers, remove_build_leftovers
from toolchain.prepare import EnvironmentJob, Job, ToolJob, prepare
from toolchain.settings import Settings


def fill_cache(
    environment: Environment, inputs: PlanInputs, plan: PlatformPlan, phases: Phases
) -> None:
    with phases.phase("tools", "binaries and Python environments, in parallel"):
        prepare(_jobs(environment, plan), environment.cache, ToolchainProgress())
    with phases.phase("bundles", "the services' code"):
        for made in copy_bundles(environment.checkout, environment.cache, _bundles(plan)):
            say(f"  {made}")
    with phases.phase("weights", "of the models, on this machine"):
        prepare_weights(environment, plan, inputs.models, ToolchainProgress())


def empty_cache(environment: Environment, phases: Phases) -> None:
    """Removes what builds have left there, unless the user keeps it. The environment is up by then:
    what cannot be removed is only said."""
    settings = Settings.read(environment.cache)
    if has_build_leftovers(settings):
        with phases.phase("cache", "removing what builds left"):
            try:
                remove_build_leftovers(settings)
            except (ToolchainError, OSError) as error:
                say(f"  what builds left is still there: {error}", style="yellow")


def _jobs(environment: Environment, plan: PlatformPlan) -> Iterator[Job]:
    """The tools and environments of a plan."""
    for tool in plan.tools:
        yield ToolJob(name=tool)
    folders = {plan.node_agent.environment, plan.gateway.xds_environment}
    folders.update(plugin.environment for plugin in _device_plugins(plan))
    for model in plan.models:
        folders.update(model.replica.environments.values())
        weights = model.replica.weights
        if weights is not None and not weights.fetched_by_hosts:
            folders.add(environment_of(weights, model.replica, environment.checkout))
    for name in sorted(folder.rpartition("-")[0] for folder in folders):
        yield EnvironmentJob(name=name, requirements=environment.checkout / REQUIREMENTS[name])


def _bundles(plan: PlatformPlan) -> list[tuple[str, str]]:
    """(service, bundle) of everything a plan runs."""
    names = {plan.node_agent.bundle, plan.operator.bundle, plan.gateway.xds_bundle}
    names.update(model.replica.bundle for model in plan.models)
    names.update(plugin.bundle for plugin in _device_plugins(plan))
    names.update(pool.fabric_check.bundle for pool in plan.pools if pool.fabric_check)
    names.update([plan.aws.bundle] if plan.aws and plan.aws.pools else [])
    return [(name.rpartition("-")[0], name) for name in sorted(names)]


def _device_plugins(plan: PlatformPlan) -> list[DevicePluginPlan]:
    return [pool.device_plugin for pool in plan.pools if pool.device_plugin is not None]
