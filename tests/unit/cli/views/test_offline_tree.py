from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from cli.pulumi.offline_documents import documents
from cli.views.offline_tree import WIDTH, offline_tree
from slipway.plan.preview import Resource

ROOT_TYPE, JOB = "slipway:index:Platform", "nomad:index/job:Job"


def resource(
    *chain: str, name: str, parent: str = "", protect: bool = False, **inputs: Any
) -> Resource:
    return {
        "type": chain[-1],
        "name": name,
        "parent": parent,
        "urn": f"urn:pulumi:dev::slipway::{'$'.join(chain)}::{name}",
        "protect": protect,
        "inputs": inputs,
    }


def lines(*resources: Resource) -> list[str]:
    tree = offline_tree(
        "dev",
        {"schema_version": 1, "resources": [*resources], "documents": documents(resources)},
    )
    console = Console(width=200, force_terminal=False)
    with console.capture() as captured:
        console.print(tree)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_resources_hang_below_their_parents_with_their_inputs() -> None:
    assert lines(
        resource(ROOT_TYPE, name="platform", servers=1),
        resource(ROOT_TYPE, JOB, name="one", parent="platform", protect=True),
        resource(JOB, name="two", json=True),
    ) == [
        "dev: 3 resources, 0 documents, as a first `up` would create them",
        "├── platform  slipway:index:Platform",
        "│   ├── servers: 1",
        "│   └── one  nomad:index/job:Job  protected",
        "└── two  nomad:index/job:Job",
        "    └── json: true",
    ]


def test_two_components_of_one_name_keep_their_own_children() -> None:
    inner = "slipway:index:Inner"
    assert lines(
        resource(ROOT_TYPE, name="same"),
        resource(ROOT_TYPE, inner, name="same", parent="same"),
        resource(ROOT_TYPE, inner, JOB, name="below-inner", parent="same"),
        resource(ROOT_TYPE, JOB, name="below-outer", parent="same"),
    )[1:] == [
        "└── same  slipway:index:Platform",
        "    ├── same  slipway:index:Inner",
        "    │   └── below-inner  nomad:index/job:Job",
        "    └── below-outer  nomad:index/job:Job",
    ]


def test_nested_inputs_are_dotted_paths_and_what_is_unknown_is_said_so() -> None:
    shown = lines(resource(JOB, name="one", a={"b": {"c": 1}, "d": {}}, late={"<unknown>": True}))
    assert shown[2:] == ["    ├── a.b.c: 1", "    ├── a.d: {}", "    └── late: <unknown>"]


def test_a_long_value_is_cut_and_its_length_told() -> None:
    (line,) = lines(resource("x:y:Z", name="one", text="a" * 5000))[2:]
    assert line == f'    └── text: "{"a" * (WIDTH - 1)}… (5002 characters)'


def test_documents_are_named_below_their_resource() -> None:
    task = {"Name": "t", "Templates": [{"DestPath": "local/f", "EmbeddedTmpl": "1\n2\n"}]}
    spec = json.dumps({"Job": {"TaskGroups": [{"Tasks": [task]}]}})
    shown = lines(resource(JOB, name="one", jobspec=spec))
    assert shown[0].startswith("dev: 1 resources, 2 documents")
    assert shown[-1] == "    └── jobs/one/t/local/f  2 lines"


def test_values_cannot_move_the_cursor_or_use_markup() -> None:
    (line,) = lines(resource("x:y:Z", name="one", text="\x1b[2J\n[red]loud[/red]"))[2:]
    assert line == '    └── text: "\\u001b[2J\\n[red]loud[/red]"'
