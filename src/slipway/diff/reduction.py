"""Reduces resources before and after to a preview's changes and facts, without their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipway.diff import effects, facts
from slipway.diff.change import OPS, Change, Op, PathChange, Resource
from slipway.diff.facts import Facts
from slipway.diff.reasons import cause_of_replace, other_changes
from slipway.diff.secrets import MASK, secret_texts
from slipway.diff.structure import differences


@dataclass(kw_only=True)
class Reduction:
    """Takes resources one by one and keeps only what a comment may show."""

    changes: list[Change] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    before: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    after: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def add(
        self, resource: Resource, op: Op | None, *, cause: tuple[str, ...], reasons: tuple[str, ...]
    ) -> None:
        """`op` is None for an unchanged resource. `reasons` and `cause` are the properties that
        differ and that force a replace, according to the engine, which also sees changes made
        outside the program."""
        for properties in (resource.before, resource.after):
            self.secrets.update(secret_texts(properties))
        if resource.type.startswith(facts.COMPONENT):
            self._keep_facts(resource)
        if op is None:
            return
        paths, changed = tuple[PathChange, ...](), set[str]()
        if resource.before is not None and resource.after is not None:
            paths = differences(resource.before, resource.after)
            changed = {path.path.partition(".")[0].partition("[")[0] for path in paths}
            others = other_changes(reasons, resource, changed)
            paths += tuple(PathChange(path=name) for name in others)
        properties = resource.before if resource.before is not None else resource.after or {}
        effect, consequence = effects.outcome(op, resource.type, properties, paths)
        self.changes.append(
            Change(
                op=op,
                urn=resource.urn,
                type=resource.type,
                name=resource.name,
                component=component_of(resource),
                effect=effect,
                consequence=consequence,
                paths=paths,
                cause=cause_of_replace(cause, resource, changed),
                holds_state=effects.holds_state(resource.type, properties),
                accelerator=_accelerator(properties),
            )
        )

    def _keep_facts(self, resource: Resource) -> None:
        key = (resource.type, resource.name)
        if resource.before is not None:
            self.before[key] = resource.before
        if resource.after is not None:
            self.after[key] = resource.after

    def facts(self) -> tuple[Facts, Facts]:
        return facts.collect(self.before), facts.collect(self.after)

    def finished(
        self, before: Facts, after: Facts, cleaned: Callable[[str], str]
    ) -> tuple[Change, ...]:
        """The changes in display order, with accelerators filled in."""
        devices = {**_devices(after), **_devices(before)}
        done = [_on_its_device(change, devices) for change in self.changes]
        if self.secrets:
            done = [_cleaned(change, cleaned) for change in done]
        return tuple(sorted(done, key=lambda each: (OPS.index(each.op), each.component, each.urn)))


def cleaner(secrets: Iterable[str]) -> Callable[[str], str]:
    """Removes every known secret from a text, longest first."""
    known = sorted(secrets, key=len, reverse=True)

    def clean(text: str) -> str:
        for secret in known:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    return clean


def component_of(resource: Resource) -> str:
    """The name of the component that owns a resource; "" at the top level."""
    if resource.type.startswith(facts.COMPONENT):
        return resource.name
    return name_of(resource.parent) if facts.COMPONENT in resource.parent else ""


def name_of(urn: str) -> str:
    return urn.split("::", 3)[-1]


def type_of(urn: str) -> str:
    parts = urn.split("::", 3)
    return parts[2].rpartition("$")[2] if len(parts) == 4 else ""


def _accelerator(properties: Mapping[str, Any]) -> str:
    """A component's own accelerator, known before the facts of the pools."""
    found = properties.get("accelerator")
    return found if isinstance(found, str) else ""


def _devices(known: Facts) -> dict[str, str]:
    """Component -> the accelerator that its resources are or run on."""
    pools = {name: pool.accelerator for name, pool in known.pools.items() if pool.accelerators}
    models = {
        f"model-{name}": pools[model.pool]
        for name, model in known.models.items()
        if model.pool in pools
    }
    return {**{f"pool-{name}": device for name, device in pools.items()}, **models}


def _on_its_device(change: Change, devices: Mapping[str, str]) -> Change:
    if change.accelerator or change.component not in devices:
        return change
    return replace(change, accelerator=devices[change.component])


def _cleaned(change: Change, cleaned: Callable[[str], str]) -> Change:
    return replace(
        change,
        urn=cleaned(change.urn),
        type=cleaned(change.type),
        name=cleaned(change.name),
        component=cleaned(change.component),
        paths=tuple(_cleaned_path(path, cleaned) for path in change.paths),
        cause=tuple(cleaned(reason) for reason in change.cause),
        accelerator=cleaned(change.accelerator),
    )


def _cleaned_path(path: PathChange, cleaned: Callable[[str], str]) -> PathChange:
    return replace(
        path,
        path=cleaned(path.path),
        before=None if path.before is None else cleaned(path.before),
        after=None if path.after is None else cleaned(path.after),
    )
