"""What a resource of a registry-only provider implements."""

# ruff: noqa: ARG002 - the signatures are those of the interface

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass

from toolchain.plugins.wire import Properties, is_unknown


class ProviderError(Exception):
    """An operation failed; the message is shown to the user as it is."""


class PartlyCreatedError(ProviderError):
    """The resource exists, but did not become what was asked for. Pulumi keeps it in its state."""

    def __init__(self, message: str, resource_id: str, outputs: Properties) -> None:
        super().__init__(message)
        self.resource_id = resource_id
        self.outputs = outputs


@contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Puts "error <what>: " before the message of a ProviderError."""
    try:
        yield
    except ProviderError as problem:
        raise ProviderError(f"error {what}: {problem}") from problem


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The circumstances of one call.

    Attributes:
        name: the logical name of the resource.
        timeout_s: `custom_timeouts` of this operation, 0 where none is set.
        log: shows a line in the progress view, next to the resource.
        cancelled: set when the user interrupts the update.
    """

    name: str
    timeout_s: float
    log: Callable[[str], None]
    cancelled: threading.Event


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What an update would do. Property names only: values stay out of messages."""

    changed: Set[str]
    replaces: Set[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class State:
    """A resource as Pulumi records it. At an import both bags are empty."""

    id: str
    inputs: Properties
    outputs: Properties


class Resource(ABC):
    """One resource type. Properties have their schema (camelCase) names; secrets are plain."""

    # Optional inputs with the value that leaving them out means.
    defaults: Mapping[str, object] = {}
    # Why it cannot be imported, and what to do instead; empty where it can be.
    import_refusal = ""

    def check(self, inputs: Properties) -> dict[str, str]:
        """{property: reason} of what is wrong with `inputs`, which may hold unknown values."""
        return {}

    @abstractmethod
    def diff(self, old: State, new: Properties) -> Difference:
        """Compare what is recorded with new inputs."""

    @abstractmethod
    def planned(self, new: Properties, old: State | None) -> Properties:
        """Outputs to show at preview of a create (`old` is None) or an update. No network."""

    @abstractmethod
    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        """Make it; returns (id, outputs)."""

    def read(self, old: State) -> State | None:
        """What exists now; None where it is gone.

        Unless a type says otherwise it is what was recorded: nothing else can change it.
        """
        return old

    @abstractmethod
    def update(self, old: State, new: Properties, operation: Operation) -> Properties:
        """Change it in place. Returns the new outputs."""

    @abstractmethod
    def delete(self, old: State, operation: Operation) -> None:
        """Remove it. Its absence is success."""

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
