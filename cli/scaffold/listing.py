"""`slipway models list`: what is served, what files there are, and what would fit."""

from __future__ import annotations

from typing import Any

from rich.console import Group

from cli.console import print_tables, write_json
from cli.environment import Environment
from cli.scaffold.adding import open_workspace
from cli.views.tables import plain_table
from slipway.scaffold.names import architecture_key
from slipway.scaffold.surroundings import Surroundings

_NAMED = 6  # models in a cell


def show(environment: Environment, *, json: bool) -> None:
    document = listed(environment)
    if json:
        write_json(document)
        return
    served = plain_table(f"served by {environment.name}")
    for heading in ("name", "model", "pools", "replicas", "file"):
        served.add_column(heading)
    for each in document["served"]:
        replicas = f"{each['replicas']['min']} to {each['replicas']['max']}"
        served.add_row(
            each["name"], each["model"], ", ".join(each["pools"]), replicas, each["file"]
        )
    others = plain_table("other model files")
    for heading in ("name", "model", "file"):
        others.add_column(heading)
    for each in document["not_served"]:
        others.add_row(each["name"], each["model"], each["file"])
    room = plain_table("models of the catalog that an empty pool holds (all of them: --json)")
    for heading in ("pool", "models", "the largest"):
        room.add_column(heading)
    for pool, names in document["fits"].items():
        room.add_row(pool, str(len(names)), ", ".join(names[:_NAMED]))
    print_tables(Group(*[each for each in (served, others, room) if each.row_count]))


def listed(environment: Environment) -> dict[str, Any]:
    """`fits` has the models of each pool, the largest first."""
    workspace = open_workspace(environment)
    known = workspace.inputs.catalog.models
    deployments = workspace.inputs.environment.settings.models
    held = Surroundings(inputs=workspace.inputs).held

    def row(name: str) -> dict[str, Any]:
        file = workspace.library[name]
        model = architecture_key(file, known) or file.settings.engine.architecture or "a folder"
        return {"name": name, "model": model, "file": file.origin.source}

    return {
        "environment": environment.name,
        "served": [
            {
                **row(name),
                "pools": list(deployment.candidates),
                "replicas": deployment.replicas.model_dump(),
            }
            for name, deployment in deployments.items()
        ],
        "not_served": [row(name) for name in sorted(workspace.library) if name not in deployments],
        "fits": {pool: list(names) for pool, names in held.items()},
    }
