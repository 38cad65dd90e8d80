"""The view of Consul that outlives the program."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import stat
from pathlib import Path

import pytest
from control_plane.last_known import LastKnown, View, read, write
from control_plane.routing import Endpoint, Routing, RoutingTable
from control_plane.sources.catalog import Catalog
from support.gateway import route
from support.waiting import eventually

ROUTES = (
    route("far", server_name="replica.metal.slipway", protocols=("http",)),
    route("tiny", aliases=("small",), routing=Routing(session_header="x-session-id")),
)
NAMED = Endpoint("10.0.0.1", 1, True, "model-tiny-1.replica[0]", 7)
TABLE = RoutingTable(
    ROUTES,
    {
        "model-far-1-openai": (),
        "model-tiny-1-openai": (NAMED, Endpoint("10.0.0.2", 1, False)),
        "model-tiny-1-grpc": (dataclasses.replace(NAMED, port=2),),
    },
)
VIEW = View(TABLE, 17)


def test_what_is_read_is_what_was_written_and_nobody_else_may(tmp_path: Path) -> None:
    path = tmp_path / "view.json"
    write(path, View(RoutingTable((), {}), 3))
    write(path, VIEW)
    assert read(path) == VIEW
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_has_no_key_that_the_version_before_refuses(tmp_path: Path) -> None:
    path = tmp_path / "view.json"
    held = dataclasses.replace(NAMED, healthy=False, held=True, instance="a")
    write(path, View(RoutingTable(ROUTES, {"model-tiny-1-openai": (held,)}), 1))
    kept = {"address", "port", "healthy", "replica", "liveness_port", "weight"}
    ((endpoint,),) = json.loads(path.read_text())["endpoints"].values()
    assert set(endpoint) == kept
    assert endpoint["healthy"] is True


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema_version": 2}', '{"schema_version": 1, "routes": [{}]}'],
)
def test_a_file_that_is_no_view_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "view.json"
    path.write_text(text)
    assert read(path) is None
    assert read(tmp_path / "missing.json") is None


def test_a_file_that_was_cut_off_anywhere_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "view.json"
    write(path, VIEW)
    whole = path.read_text()
    for length in range(0, len(whole), 7):
        path.write_text(whole[:length])
        assert read(path) is None


async def test_the_newest_view_is_kept_and_a_failure_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "later"
    folder.touch()
    views = [VIEW]
    keeper = LastKnown(folder / "view.json", lambda: views[-1])
    task = asyncio.create_task(keeper.run())
    keeper.changed()
    await eventually(lambda: "is not kept" in caplog.text, "a file is in its way")
    folder.unlink()
    keeper.changed()
    await eventually(lambda: read(folder / "view.json") == VIEW, "the view is kept")
    assert not task.done()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_a_restored_table_is_served_until_consuls_routes_are_known() -> None:
    catalog = Catalog()
    assert catalog.table() is None
    catalog.restore(TABLE)
    assert catalog.table() == TABLE
    assert catalog.clusters() == set(TABLE.endpoints)

    (far, _) = ROUTES
    catalog.put_routes([far], {})
    served = catalog.table()
    assert served is not None
    assert served.routes == (far,)


def test_no_part_of_a_document_is_a_secret(tmp_path: Path) -> None:
    write(tmp_path / "view.json", VIEW)
    document = json.loads((tmp_path / "view.json").read_text())
    assert document.keys() == {"schema_version", "index", "routes", "endpoints"}
