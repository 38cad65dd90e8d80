"""The documents inside resources, each under a path that is the same in every run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from slipway.plan.preview import SECRET, Resource

Inputs = Mapping[str, Any]
Documents = Iterator[tuple[str, str]]  # path, text


def documents(resources: Sequence[Resource]) -> dict[str, str]:
    """Path -> text of every document of the resources; unknown and secret ones are left out.

    jobs/<name>.json                  the job of a Nomad job resource
    jobs/<name>/<task>/<file>         a file of a task, before Nomad fills in templates
    hosts/<host>/<agent>/config.json  an agent's configuration file, as the host writes it
    programs/<name>.json              what a program on a host is given
    consul/<key>                      the value of a key in Consul
    acl/<name>.hcl                    a policy's rules in Nomad
    """
    found: dict[str, str] = {}
    for resource in resources:
        for path, text in documents_of(resource):
            if found.setdefault(path, text) != text:
                raise ValueError(f"two resources have a document {path}")
    return found


def documents_of(resource: Resource) -> Documents:
    render = _RENDERED.get(resource["type"])
    if render is not None:
        yield from render(resource["name"], resource["inputs"])


def _job(name: str, inputs: Inputs) -> Documents:
    text = _text(inputs, "jobspec")
    if text is None:
        return
    job = json.loads(text)
    yield f"jobs/{name}.json", _readable(job)
    for group in job["Job"]["TaskGroups"]:
        for task in group["Tasks"]:
            for file in task.get("Templates", ()):
                yield f"jobs/{name}/{task['Name']}/{file['DestPath']}", file["EmbeddedTmpl"]


def _host_program(name: str, inputs: Inputs) -> Documents:
    text = _text(inputs, "environment", "SLIPWAY_DOCUMENT")
    if text is None:
        return
    document = json.loads(text)
    yield f"programs/{name}.json", _readable(document)
    for agent in document.get("agents", ()):
        path = f"hosts/{document['host']}/{agent['name']}/config.json"
        yield path, _readable(agent["configuration"])


def _keys(_: str, inputs: Inputs) -> Documents:
    keys = inputs["keys"]
    for key in keys if isinstance(keys, list) else ():
        path, text = _text(key, "path"), _text(key, "value")
        if path is not None and text is not None:
            yield f"consul/{path}", text


def _acl_policy(name: str, inputs: Inputs) -> Documents:
    rules = _text(inputs, "rulesHcl")
    if rules is not None:
        yield f"acl/{name}.hcl", rules


_RENDERED: Mapping[str, Callable[[str, Inputs], Documents]] = {
    "nomad:index/job:Job": _job,
    "command:local:Command": _host_program,
    "consul:index/keys:Keys": _keys,
    "nomad:index/aclPolicy:AclPolicy": _acl_policy,
}


def _text(value: Any, *path: str) -> str | None:
    """The text at `path`; None where it is missing, secret or not known yet."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and value != SECRET else None


def _readable(document: Any) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
