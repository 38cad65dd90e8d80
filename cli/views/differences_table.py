"""What a `--what-if` changes: before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.views.tables import plain_table
from slipway.plan.figures import Cost
from slipway.planner.reports.differences import Difference
from slipway.planner.reports.price_date import dated

_LONGEST_NAME = 32  # characters; longer ones may be broken


def differences_table(
    changes: Sequence[str], rows: Iterable[Difference], warnings: Iterable[str], *, cost: Cost
) -> RenderableType:
    """Every quantity that differs, the date of its prices, and the warnings that are new. `cost` is
    that after the change. Prints nothing itself."""
    found = list(rows)
    title = f"what if {', '.join(changes)}"
    return Group(
        _table(title, found) if found else Text(f"{title}: nothing in the plan changes"),
        *_prices(found, cost),
        *(Text(f"! {warning}") for warning in warnings),
    )


def _prices(rows: Iterable[Difference], cost: Cost) -> Iterator[Text]:
    if cost.price_date and any(row.quantity.startswith("cost") for row in rows):
        yield Text(f"The oldest price is of {dated(cost.price_date, cost.price_age_days)}.\n")


def _table(title: str, rows: Sequence[Difference]) -> Table:
    table = plain_table(title)
    longest = max(len(row.subject) for row in rows)
    table.add_column("", overflow="fold", no_wrap=longest <= _LONGEST_NAME)
    table.add_column("before", overflow="fold")
    table.add_column("after", overflow="fold")
    last = ""
    for row in rows:
        if row.subject != last:
            table.add_row(row.subject)
        table.add_row(f"  {row.quantity}", row.before or "-", row.after or "-")
        last = row.subject
    return table
