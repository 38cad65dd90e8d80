"""The dashboards as Grafana reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count, groupby
from string import ascii_uppercase

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    VariableOption,
    VariableRefresh,
)

from components.dashboards.panels import FLEET, GATEWAY, MODEL, PANELS, Panel

TITLES = {FLEET: "Slipway: fleet", MODEL: "Slipway: models", GATEWAY: "Slipway: gateway"}
# Every model that has been scraped, also one without a request.
MODELS = "label_values(vllm:num_requests_running, model)"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
GRID_COLUMNS = 24  # of Grafana's dashboards
SPANS = {"lines": 12, "number": 6}
HEIGHTS = {"lines": 8, "number": 4}


def dashboards() -> Mapping[str, str]:
    """The JSON of each dashboard, by its name."""
    return {name: _json(_dashboard(name)) for name in TITLES}


def _dashboard(name: str) -> dashboard.Dashboard:
    built = (
        dashboard.Dashboard(TITLES[name])
        .uid(f"slipway-{name}")
        .tags(["slipway"])
        .time("now-1h", "now")
        .refresh("10s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Slipway")
            .type(DashboardLinkType.DASHBOARDS)
            .tags(["slipway"])
            .as_dropdown(True)
            .keep_time(True)
        )
        .with_variable(
            dashboard.DatasourceVariable("datasource").type("prometheus").label("Source")
        )
    )
    if name == MODEL:
        built.with_variable(_models())
    own = [panel for panel in PANELS if panel.dashboard == name]
    ids = count(1)
    for row, panels in groupby(own, key=lambda panel: panel.row):
        built.with_row(dashboard.Row(row).id(next(ids)))
        for panel in panels:
            built.with_panel(_panel(panel).id(next(ids)))
    return built


def _models() -> dashboard.QueryVariable:
    """All models, or some of them."""
    return (
        dashboard.QueryVariable("model")
        .label("Model")
        .datasource(SOURCE)
        .query(MODELS)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


def _panel(panel: Panel) -> timeseries.Panel | stat.Panel:
    made = _lines() if panel.kind == "lines" else stat.Panel()
    made.title(panel.title).description(panel.about).unit(panel.unit).datasource(SOURCE)
    made.span(SPANS[panel.kind]).height(HEIGHTS[panel.kind])
    for name, query in zip(ascii_uppercase, panel.queries, strict=False):
        target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend)
        made.with_target(target.ref_id(name).range())
    return made


def _lines() -> timeseries.Panel:
    """With the latest values in a legend below, from zero up."""
    legend = (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.TABLE)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["lastNotNull", "max"])
    )
    return timeseries.Panel().legend(legend).axis_soft_min(0).fill_opacity(10)


def _json(built: dashboard.Dashboard) -> str:
    return json.dumps(built.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
