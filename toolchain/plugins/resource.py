"""The interface of a registry-only provider's resources."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass

from toolchain.plugins.wire import UNKNOWN, Properties, is_unknown


class ProviderError(Exception):
    """An operation failed; the message is shown to the user unchanged."""


class PartlyCreatedError(ProviderError):
    """The resource exists but is incomplete. Pulumi keeps it in its state."""

    def __init__(self, message: str, resource_id: str, outputs: Properties) -> None:
        super().__init__(message)
        self.resource_id = resource_id
        self.outputs = outputs


@contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Puts "error <what>: " before the message of what is refused."""
    try:
        yield
    except (ProviderError, ValueError) as problem:
        raise ProviderError(f"error {what}: {problem}") from problem


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The context of one call.

    Attributes:
        name: the logical name of the resource.
        log: shows a line in the progress view, next to the resource.
        cancelled: set when the user interrupts the update.
    """

    name: str
    log: Callable[[str], None]
    cancelled: threading.Event


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What an update would change. Only property names, to keep values out of messages."""

    changed: Set[str]
    replaces: Set[str] = frozenset()
    delete_before_replace: bool = False


@dataclass(frozen=True, kw_only=True)
class State:
    """A resource as recorded by Pulumi. In an import both bags are empty."""

    id: str
    inputs: Properties
    outputs: Properties


class Resource(ABC):
    """One resource type. Properties have their schema (camelCase) names; secrets are plain.

    What is not overridden is for a type that is made once, and that nothing else can change.
    """

    kind: str  # the type token
    # Optional inputs and their default values.
    defaults: Mapping[str, object] = {}
    # The defaults that the official plugin adds to the recorded inputs.
    recorded_defaults: Mapping[str, object] = {}
    # Inputs of the official plugin that this one refuses.
    unsupported: Collection[str] = ()
    # Outputs that are unknown before a create or an update.
    computed: Collection[str] = ()

    def check(self, inputs: Properties) -> dict[str, str]:
        """{property: reason} for invalid `inputs`, which may contain unknown values."""
        reason = "the registry-only plugin does not support it"
        return {name: reason for name in self.unsupported if inputs.get(name)}

    def diff(self, old: State, new: Properties) -> Difference:
        """Compare the recorded state with new inputs."""
        changed = self.changed(old.inputs, new)
        return Difference(changed=changed, replaces=changed)

    def planned(self, new: Properties, old: State | None) -> Properties:
        """Outputs to show at preview of a create (`old` is None) or an update. No network."""
        return {**self.with_defaults(new), **dict.fromkeys(self.computed, UNKNOWN)}

    @abstractmethod
    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        """Create the resource; returns (id, outputs)."""

    def read(self, old: State) -> State | None:
        """The resource as it exists now; None if it is gone."""
        if old.outputs:
            return old
        raise ProviderError(f"{self.kind} cannot be imported: leave out `import_`")

    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        """Change the resource in place. Returns the new outputs."""
        raise ProviderError(f"{self.kind} is replaced, never updated")

    def delete(self, old: State, operation: Operation) -> None:  # noqa: B027 - often nothing
        """Delete the resource. It is a success if it does not exist."""

    def with_defaults(self, inputs: Properties) -> Properties:
        """`inputs` with the defaults of this type filled in."""
        return {**self.defaults, **inputs}

    def changed(self, old: Properties, new: Properties) -> set[str]:
        """Names whose value differs, a left-out property counting as its default."""
        before, after = self.with_defaults(old), self.with_defaults(new)
        return {
            name
            for name in before.keys() | after.keys()
            if is_unknown(after.get(name)) or before.get(name) != after.get(name)
        }
