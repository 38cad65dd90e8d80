"""What the members of groups are told of the fabric, as a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from cli.views.tables import plain_table
from slipway.plan.draft import AnyPlan
from slipway.planner.fabric.environment import variables_of


def member_variables(plan: AnyPlan) -> Iterator[Table]:
    """The variables of every model whose replicas take several hosts; nothing where none does."""
    rows = [
        (model.name, variable)
        for model in plan.models
        if model.replica.nodes > 1
        for variable in variables_of(model, plan.pool(model.pool).fabric)
    ]
    if not rows:
        return
    table = plain_table("environment of members")
    for heading in ("model", "variable", "default", "override", "why"):
        table.add_column(heading, overflow="fold")
    for name, variable in rows:
        table.add_row(
            name,
            variable.name,
            "-" if variable.default is None else variable.default,
            "" if variable.override is None else variable.override,
            variable.reason,
        )
    yield table
