"""A Pulumi engine that creates nothing: it records what a program registers.

Needs no credentials, no provider plugins and no cluster. Values that only a provider could compute
stay unknown, as in a preview by the real engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pulumi
from google.protobuf import json_format, struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime.mocks import MockMonitor, Mocks
from pulumi.runtime.proto import resource_pb2

from stacks.source_positions import remember_source_positions

# How Pulumi marks values on the wire (sdk/python/lib/pulumi/runtime/rpc.py).
SIGNATURE = "4dabf18193072939515e22adb298388d"  # the key of a marked object
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  (a signature)
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # stands for an unknown value

STACK = "pulumi:pulumi:Stack"

# (type, name) of a created resource -> the outputs that its provider adds to its inputs.
Creation = Callable[[str, str], Mapping[str, Any]]


class NeedsProviderError(Exception):
    """The program needs an answer that only a provider's plugin can give."""


@dataclass(frozen=True)
class Registration:
    name: str
    type: str
    urn: str
    parent_urn: str  # "" for a child of the stack
    inputs: dict[str, Any]  # as on the wire: secrets and unknowns are marked
    depends_on: frozenset[str]  # names
    ignore_changes: tuple[str, ...]
    protect: bool
    provider: str  # the name of the explicit provider, "" for a default one

    @property
    def parent(self) -> str:
        """The parent's name, "" for a child of the stack."""
        return _name(self.parent_urn)

    @property
    def path(self) -> str:
        """The chain of types from the root component down, and the name, as in state files."""
        *_, chain, name = self.urn.split("::")
        return f"{chain} {name}"

    def text(self, key: str) -> str:
        """A plain string input."""
        value = self.inputs[key]
        if not isinstance(value, str):
            raise TypeError(f"{self.name}: {key} is not a plain string")
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

    def add(self, found: Registration) -> None:
        self.registrations[found.name] = found
        self.by_urn[found.urn] = found

    def __getitem__(self, name: str) -> Registration:
        return self.registrations[name]

    def of_type(self, prefix: str) -> list[Registration]:
        """The resources whose type starts with `prefix`, in order of registration."""
        return [found for found in self.by_urn.values() if found.type.startswith(prefix)]

    def tree(self) -> dict[str, str]:
        """Name -> the name of its parent."""
        return {name: found.parent for name, found in self.registrations.items()}

    def depth_first(self) -> Iterator[Registration]:
        """Each resource after its parent, siblings by type and name. The order is the same in every
        run, though registrations arrive in any order."""
        children: dict[str, list[Registration]] = {}
        for found in sorted(self.by_urn.values(), key=lambda found: (found.type, found.name)):
            children.setdefault(found.parent_urn, []).append(found)
        stack = children.get("", [])[::-1]
        while stack:
            found = stack.pop()
            yield found
            stack.extend(reversed(children.get(found.urn, [])))


def record(
    program: Callable[[], Any],
    *,
    project: str = "slipway",
    stack: str = "dev",
    created: Creation | None = None,
    into: Recording | None = None,
) -> Recording:
    """Run a program and return what it registered (`into`), once every registration has arrived.

    The program sees a preview in which everything is to be created: a resource's inputs are known,
    everything else is unknown. With `created` it sees the run that creates them. Raises
    NeedsProviderError for an invoke or a read of an existing resource, and any error of the
    program.
    """
    providers = _NoProviders()
    monitor = _Monitor(providers, f"{stack}::{project}", into or Recording(), created)
    remember_source_positions()
    with _as_current(_ThreadlessLoop()):
        pulumi.runtime.set_mocks(
            providers, project=project, stack=stack, preview=created is None, monitor=monitor
        )
        pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]
    return monitor.recording


@contextmanager
def _as_current(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Makes the loop current, because the SDK asks for the thread's current loop."""
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class _ThreadlessLoop(asyncio.SelectorEventLoop):
    """Runs the SDK's calls to its engine without threads: this engine answers at once, and
    switching threads took a twelfth of the time for a thousand models."""

    def run_in_executor(  # type: ignore[override]  # its type parameters come with Python 3.12
        self, _executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as problem:
            future.set_exception(problem)
        return future


class _Monitor(MockMonitor):
    def __init__(
        self, providers: Mocks, place: str, recording: Recording, created: Creation | None
    ) -> None:
        super().__init__(providers)
        self.recording = recording
        self._place = place
        self._created = created

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """A URN with the types of all ancestors, as in the engine; the SDK's mock has only one."""
        chain = f"{parent.split('::')[2]}${type_}" if _name(parent) else type_
        return f"urn:pulumi:{self._place}::{chain}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  (the protocol's name)
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == STACK:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        found = Registration(
            name=request.name,
            type=request.type,
            urn=urn,
            parent_urn=request.parent if _name(request.parent) else "",
            inputs=json_format.MessageToDict(request.object),
            depends_on=frozenset(_name(urn) for urn in request.dependencies),
            ignore_changes=tuple(request.ignoreChanges),
            protect=request.protect,
            provider=_name(request.provider.rpartition("::")[0]),
        )
        self.recording.add(found)
        if self._created is None:
            return resource_pb2.RegisterResourceResponse(urn=urn, object=request.object)
        state = struct_pb2.Struct()
        state.CopyFrom(request.object)
        state.update(self._created(found.type, found.name))
        return resource_pb2.RegisterResourceResponse(
            urn=urn, id=f"id of {found.name}", object=state
        )

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802
        self.recording.finished.add(_name(request.urn))
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


class _NoProviders(Mocks):
    """The SDK's mock monitor calls this for an invoke and for a read of an existing resource."""

    def call(self, args: Any) -> Any:
        raise NeedsProviderError(f"the invoke {args.token} needs its provider's plugin")

    def new_resource(self, args: Any) -> Any:
        raise NeedsProviderError(f"reading {args.typ} {args.name} needs its provider's plugin")


def _name(urn: str) -> str:
    """The last part of a URN; "" for the stack itself."""
    if not urn:
        return ""
    *_, type_chain, name = urn.split("::")
    return "" if type_chain == STACK else name
