"""A monitor that records what a component registers: its tree, its options, what is secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulumi
from google.protobuf import json_format  # type: ignore[import-untyped]
from pulumi.runtime.mocks import MockMonitor, MockResourceArgs, Mocks

SECRET = "1b47061264138c4ac30d75fd1eb44270"  # Pulumi's marker of a secret on the wire
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # its marker of a value unknown at preview


@dataclass(frozen=True)
class Registration:
    name: str
    type: str
    parent: str  # the parent's name, "" for a child of the stack
    inputs: dict[str, Any]  # as on the wire: secrets and unknowns are marked
    depends_on: frozenset[str]
    ignore_changes: tuple[str, ...]
    urn: str
    provider: str  # the name of the explicit provider, "" for a default one

    @property
    def path(self) -> str:
        """The chain of types from the root component down, and the name: what state files know."""
        *_, chain, name = self.urn.split("::")
        return f"{chain} {name}"

    def text(self, key: str) -> str:
        """A plain string input."""
        value = self.inputs[key]
        assert isinstance(value, str), f"{self.name}: {key} is no plain string"
        return value

    def is_secret(self, key: str) -> bool:
        return SECRET in str(self.inputs[key])

    def is_unknown(self, key: str) -> bool:
        return UNKNOWN in str(self.inputs[key])


@dataclass
class Recording:
    # By name. A component and its provider may share one: `by_urn` has both.
    registrations: dict[str, Registration] = field(default_factory=dict)
    by_urn: dict[str, Registration] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)  # components that registered their outputs

    def __getitem__(self, name: str) -> Registration:
        return self.registrations[name]

    def of_type(self, prefix: str) -> list[Registration]:
        """The resources whose type begins with `prefix`, in the order they were registered."""
        return [found for found in self.by_urn.values() if found.type.startswith(prefix)]

    def tree(self) -> dict[str, str]:
        """Name -> the name of its parent."""
        return {name: found.parent for name, found in self.registrations.items()}


class _Outputs(Mocks):
    """A random password has a result, unless this is a preview; nothing else computes anything."""

    def __init__(self, *, preview: bool) -> None:
        self._preview = preview

    def call(self, args: Any) -> Any:
        raise AssertionError(f"{args.token}: an invoke would need the cluster at preview")

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if self._preview:
            return None, dict(args.inputs)
        result = {"result": f"random of {args.name}"} if "Password" in args.typ else {}
        return f"id of {args.name}", {**args.inputs, **result}


class _Monitor(MockMonitor):
    def __init__(self, mocks: Mocks) -> None:
        super().__init__(mocks)
        self.recording = Recording()

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """With the types of all ancestors, as the engine does; the SDK's mock has one."""
        chain = parent.split("::")[2] if _name(parent) else ""
        return f"urn:pulumi:dev::slipway::{chain}${type_}::{name}".replace("::$", "::")

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  (the protocol's name)
        if request.type != "pulumi:pulumi:Stack":
            found = Registration(
                name=request.name,
                type=request.type,
                parent=_name(request.parent),
                inputs=json_format.MessageToDict(request.object),
                depends_on=frozenset(_name(urn) for urn in request.dependencies),
                ignore_changes=tuple(request.ignoreChanges),
                urn=self.make_urn(request.parent, request.type, request.name),
                provider=_name(request.provider.rpartition("::")[0]),
            )
            self.recording.registrations[found.name] = found
            self.recording.by_urn[found.urn] = found
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802
        self.recording.finished.add(_name(request.urn))
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


def record(build: Callable[[], Any], *, preview: bool = False) -> Recording:
    """Run a program on mocks and return what it registered, once every registration has landed."""
    mocks = _Outputs(preview=preview)
    monitor = _Monitor(mocks)
    pulumi.runtime.set_mocks(
        mocks, project="slipway", stack="dev", preview=preview, monitor=monitor
    )

    pulumi.runtime.test(build)()  # type: ignore[no-untyped-call]
    return monitor.recording


def _name(urn: str) -> str:
    """The last part of a URN; "" for the stack itself."""
    if not urn:
        return ""
    *_, type_chain, name = urn.split("::")
    return "" if type_chain == "pulumi:pulumi:Stack" else name
