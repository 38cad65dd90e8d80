"""The tables of docs/clients.md are of the requests that the tests make of both engines.

SLIPWAY_UPDATE_GOLDEN=1 writes them; read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from api_requests import EVENTS, PATHS, RIGHT, WRONG, Api

from cli.environment import CHECKOUT

PAGE = CHECKOUT / "docs/clients.md"
BEGIN, END = "<!-- begin: made by tests/unit/test_clients_page.py -->\n", "<!-- end -->\n"


def test_the_tables_are_of_the_requests_that_tests_make() -> None:
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    expected = f"{head}{BEGIN}{tables()}{END}{tail}"
    if os.environ.get("SLIPWAY_UPDATE_GOLDEN"):
        PAGE.write_text(expected)
    assert text == expected, "SLIPWAY_UPDATE_GOLDEN=1 updates it"


def test_the_requests_are_as_many_as_the_project_promises() -> None:
    assert len(RIGHT) + sum(request.api in EVENTS for request in RIGHT) + len(WRONG) >= 40
    assert len(WRONG) >= 15
    assert {request.api for request in WRONG} == set(PATHS)


def tables() -> str:
    return "".join(f"{line}\n" for api in PATHS for line in _of_api(api))


def _of_api(api: Api) -> Iterator[str]:
    kinds = ", ".join(f"`{kind}`" for kind in EVENTS.get(api, ()))
    features = [request.feature for request in RIGHT if request.api == api]
    mistakes = [f"{each.mistake} ({each.status})" for each in WRONG if each.api == api]
    yield f"### `{PATHS[api]}`"
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| {'whole and streamed' if kinds else 'whole'} | {'; '.join(features)} |"
    if kinds:
        yield f"| events | {kinds} |"
    yield f"| refused, with the status | {'; '.join(mistakes)} |"
    yield ""
