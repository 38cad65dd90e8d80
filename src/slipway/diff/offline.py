"""Compares two outputs of `slipway preview --offline --json`, from before and after a change.

For reviewers and pull requests without credentials: it shows what changed in the files, not how the
machines differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.diff.change import Op, Preview, PreviewFormatError, Resource
from slipway.diff.effects import COMMAND, JOB, PASSWORD
from slipway.diff.facts import COMPONENT, of_resource
from slipway.diff.json_text import read_json
from slipway.diff.reduction import Reduction, cleaner

Key = tuple[str, str]


def is_offline(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("resources"), list)


def compare(before: Mapping[str, Any], after: Mapping[str, Any], *, environment: str) -> Preview:
    """Raises PreviewFormatError if one of the two is not an offline preview."""
    olds, news = _resources(before), _resources(after)
    reduction, unchanged = Reduction(), 0
    components = {name: type_ for type_, name in (*olds, *news) if type_.startswith(COMPONENT)}
    for key in sorted({*olds, *news}):
        resource = _resource(key, olds.get(key), news.get(key), components)
        op, cause = _operation(resource)
        unchanged += op is None
        reduction.add(resource, op, cause=cause, reasons=())
    cleaned = cleaner(reduction.secrets)
    before_facts, after_facts = reduction.facts()
    return Preview(
        environment=environment,
        changes=reduction.finished(before_facts, after_facts, cleaned),
        unchanged=unchanged,
        before=before_facts,
        after=after_facts,
        compared_with="the files of the base, not what runs",
    )


def _resources(document: Mapping[str, Any]) -> dict[Key, Mapping[str, Any]]:
    if not is_offline(document):
        raise PreviewFormatError(
            "this is not the output of slipway preview --offline --json: it has no resources",
            fix="slipway preview --offline --json > before.json, in the base's checkout",
        )
    return {(str(each["type"]), str(each["name"])): each for each in document["resources"]}


def _resource(
    key: Key,
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    components: Mapping[str, str],
) -> Resource:
    """`components` maps names to types, to tell a component from a provider with the same name."""
    (type_, name), known = key, new or old or {}
    parent = str(known.get("parent") or "")
    return Resource(
        urn=str(known.get("urn") or f"{type_}::{name}"),
        type=type_,
        name=name,
        parent=f"offline::files::{components[parent]}::{parent}" if parent in components else "",
        before=None if old is None else of_resource(type_, old.get("inputs") or {}),
        after=None if new is None else of_resource(type_, new.get("inputs") or {}),
    )


def _operation(resource: Resource) -> tuple[Op | None, tuple[str, ...]]:
    """The operation that the providers would run, by their documented replace rules."""
    before, after = resource.before, resource.after
    if before is None:
        return "create", ()
    if after is None:
        return "delete", ()
    if before == after:
        return None, ()
    causes = _replacing(resource.type, before, after)
    return ("replace" if causes else "update"), causes


def _replacing(type_: str, before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    if type_ == JOB:
        moved = _job_id(before) != _job_id(after)
        return ("jobspec",) if moved else ()
    if type_ == COMMAND:
        return ("triggers",) if before.get("triggers") != after.get("triggers") else ()
    if type_ == PASSWORD:
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
        return tuple(sorted(changed))
    return ()


def _job_id(inputs: Mapping[str, Any]) -> Any:
    jobspec = inputs.get("jobspec")
    try:
        root = read_json(jobspec) if isinstance(jobspec, str) else jobspec
    except ValueError:
        return None
    job = root.get("Job", root) if isinstance(root, Mapping) else {}
    return job.get("ID"), job.get("Namespace")
