"""Pulumi, ready to change a fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from cli.console import say
from cli.environment import Environment
from cli.lifecycle.fleet import backend
from cli.lifecycle.fleet.access import reaching
from cli.progress import Phases, ToolchainProgress
from cli.pulumi.locks import exclusive
from cli.pulumi.plugins import describe, prepare_plugins
from cli.pulumi.process import Pulumi
from slipway.plan.platform import PlatformPlan
from toolchain import resolve


@contextmanager
def tools(environment: Environment, phases: Phases) -> Iterator[Pulumi]:
    """Pulumi with its plugins, locked for one command at a time."""
    with exclusive(environment):
        with phases.phase("tools", "Pulumi and its plugins"):
            resolve.tools(["pulumi"], environment.cache, ToolchainProgress())
            kind = prepare_plugins(environment)
        say(f"{environment.name}: {describe(environment, kind)}")
        environment.access.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield backend.users_pulumi(environment)


@contextmanager
def prepared(
    environment: Environment, phases: Phases, plan: PlatformPlan | None
) -> Iterator[tuple[Pulumi, Mapping[str, str]]]:
    """`tools` with a way to the hosts of the plan, and the variables of that way."""
    way: AbstractContextManager[Mapping[str, str]] = (
        reaching(environment, plan) if plan else nullcontext({})
    )
    with tools(environment, phases) as pulumi, way as variables:
        yield through(variables, pulumi), variables


def through(way: Mapping[str, str], pulumi: Pulumi) -> Pulumi:
    """The same Pulumi, told the way to the hosts."""
    return replace(pulumi, variables={**pulumi.variables, **way})


def log_of(environment: Environment) -> Path:
    """The log file. It is not in the environment's own folder, which is for processes on this
    machine."""
    return environment.pulumi_home / f"{environment.name}.log"
