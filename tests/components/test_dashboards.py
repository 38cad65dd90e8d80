"""The dashboards for Grafana, and the queries of their panels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from typer.testing import CliRunner

from cli.app import app
from components.dashboards.grafana import GRID_COLUMNS, MODELS, TITLES, dashboards
from components.dashboards.panels import CHOSEN, MODEL, PANELS, WINDOW, Panel
from tests.components.golden import assert_golden_text

LABEL = re.compile(r"\{\{(\w+)\}\}")


def as_sent(expression: str) -> str:
    """A query with what Grafana puts in place of its variables, for all models."""
    return expression.replace("$model", ".+").replace(WINDOW, "1m")


def shown(name: str) -> Iterator[dict[str, Any]]:
    """The panels of a dashboard, without the headings of rows."""
    document = json.loads(dashboards()[name])
    yield from (panel for panel in document["panels"] if panel["type"] != "row")


@pytest.mark.parametrize("name", TITLES)
def test_each_dashboard_is_the_golden_one(name: str) -> None:
    assert_golden_text(f"dashboards/{name}.json", dashboards()[name])


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_prometheus_can_read_every_query(panel: Panel) -> None:
    assert panel.queries
    for query in panel.queries:
        promql_parser.parse(as_sent(query.expression))


def test_a_broken_query_would_be_refused() -> None:
    with pytest.raises(ValueError, match=r"invalid promql|unclosed|unexpected"):
        promql_parser.parse("sum(up")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_legend_names_only_labels_that_the_query_keeps(panel: Panel) -> None:
    for query in panel.queries:
        kept = {
            label.strip()
            for labels in re.findall(r"by \(([^)]*)\)", query.expression)
            for label in labels.split(",")
        }
        assert set(LABEL.findall(query.legend)) <= (kept or {"replica"})


def test_each_panel_is_on_its_dashboard_once_with_all_its_queries() -> None:
    for name in TITLES:
        own = [panel for panel in PANELS if panel.dashboard == name]
        found = [
            (panel["title"], [target["expr"] for target in panel["targets"]])
            for panel in shown(name)
        ]
        expected = [(each.title, [query.expression for query in each.queries]) for each in own]
        assert found == expected
    assert {panel.dashboard for panel in PANELS} == set(TITLES)


@pytest.mark.parametrize("name", TITLES)
def test_panels_have_ids_and_places_of_their_own(name: str) -> None:
    document = json.loads(dashboards()[name])
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= GRID_COLUMNS
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        taken |= cells


def test_only_the_dashboard_of_models_asks_for_the_chosen_ones() -> None:
    for panel in PANELS:
        asked = [CHOSEN in query.expression for query in panel.queries]
        assert asked == [panel.dashboard == MODEL] * len(panel.queries)
    variables = {
        name: [each["name"] for each in json.loads(text)["templating"]["list"]]
        for name, text in dashboards().items()
    }
    assert variables == {
        name: ["datasource", *(["model"] if name == MODEL else [])] for name in TITLES
    }
    assert MODELS in dashboards()[MODEL]


def test_the_command_writes_them_into_a_new_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "dashboards"
    done = CliRunner().invoke(app, ["dashboards", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {name: f"{folder}/{name}.json" for name in TITLES}
    for name, text in dashboards().items():
        assert (folder / f"{name}.json").read_text() == text


def test_the_command_refuses_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["dashboards", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "is not a folder" in done.stderr
    assert "fix: " in done.stderr
