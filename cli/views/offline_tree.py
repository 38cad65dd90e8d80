"""An offline preview for people: the component tree with every resource's inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text
from rich.tree import Tree

from cli.pulumi.offline_documents import documents_of
from slipway.plan.preview import UNKNOWN, OfflinePreview, Resource

WIDTH = 80  # longer values are cut; --json has them whole

_COMPONENT, _RESOURCE = "bold cyan", "bold"


def offline_tree(name: str, preview: OfflinePreview) -> Tree:
    """The tree of environment `name`; each resource comes after its parent."""
    resources = preview["resources"]
    count = f"{len(resources)} resources, {len(preview['documents'])} documents"
    root = Tree(Text(f"{name}: {count}, as a first `up` would create them"), guide_style="dim")
    branches = [root]
    for resource in resources:
        depth = _depth(resource)
        branches[depth + 1 :] = [branches[depth].add(_heading(resource))]
        _add_inputs(branches[depth + 1], resource)
    return root


def _depth(resource: Resource) -> int:
    """The number of components above it: a URN contains all their types."""
    chain = resource["urn"].split("::")[2]
    return chain.count("$")


def _heading(resource: Resource) -> Text:
    style = _COMPONENT if resource["type"].startswith("slipway:") else _RESOURCE
    heading = Text.assemble((resource["name"], style), "  ", (resource["type"], "dim"))
    return heading.append("  protected", "green") if resource["protect"] else heading


def _add_inputs(branch: Tree, resource: Resource) -> None:
    for path, value in _leaves(resource["inputs"]):
        branch.add(Text(f"{path}: ").append_text(_shown(value)))
    for path, text in documents_of(resource):
        branch.add(Text(f"{path}  {text.count(chr(10))} lines", style="blue"))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths and the values at them; unknown values and empty ones are leaves."""
    if isinstance(value, Mapping) and value and UNKNOWN not in value:
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}" if path else key)
    elif path:
        yield path, value


def _shown(value: Any) -> Text:
    if isinstance(value, Mapping) and UNKNOWN in value:
        return Text(UNKNOWN, style="yellow")
    text = json.dumps(value)  # escapes control characters
    if len(text) <= WIDTH:
        return Text(text)
    return Text(f"{text[:WIDTH]}… ({len(text)} characters)")
