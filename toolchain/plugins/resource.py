"""What a resource of a registry-only provider implements."""

# ruff: noqa: ARG002 - the signatures are those of the interface

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolchain.plugins.wire import UNKNOWN, Properties, is_unknown


class ProviderError(Exception):
    """An operation failed; the message is shown to the user as it is."""


class PartlyCreatedError(ProviderError):
    """The resource exists, but did not become what was asked for. Pulumi keeps it in its state."""

    def __init__(self, message: str, resource_id: str, outputs: Properties) -> None:
        super().__init__(message)
        self.resource_id = resource_id
        self.outputs = outputs


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The circumstances of one call.

    Attributes:
        urn: the resource's URN; its last part is the logical name.
        timeout_s: `custom_timeouts` of this operation, 0 where none is set.
        log: shows a line in the progress view, next to the resource.
        cancelled: set when the user interrupts the update.
    """

    urn: str
    timeout_s: float
    log: Callable[[str], None]
    cancelled: threading.Event

    @property
    def name(self) -> str:
        """The logical name of the resource."""
        return self.urn.rpartition("::")[2]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What an update would do. Property names only: values stay out of messages."""

    changed: frozenset[str] = field(default_factory=frozenset)
    replaces: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What exists, as Pulumi records it."""

    inputs: Properties
    outputs: Properties


class Resource(ABC):
    """One resource type. Properties have their schema (camelCase) names; secrets are plain."""

    # Optional inputs with the value that leaving them out means.
    defaults: Mapping[str, object] = {}

    def check(self, inputs: Properties) -> dict[str, str]:
        """{property: reason} of what is wrong with `inputs`, which may hold unknown values."""
        return {}

    @abstractmethod
    def diff(
        self, resource_id: str, old_inputs: Properties, old: Properties, new: Properties
    ) -> Difference:
        """Compare the recorded inputs and outputs with new inputs."""

    @abstractmethod
    def planned(self, new: Properties, old: Properties | None) -> Properties:
        """Outputs to show at preview of a create (`old` is None) or an update. No network."""

    @abstractmethod
    def create(self, new: Properties, operation: Operation) -> tuple[str, Properties]:
        """Make it; returns (id, outputs)."""

    @abstractmethod
    def read(self, resource_id: str, inputs: Properties, outputs: Properties) -> Snapshot | None:
        """What exists now; None where it is gone. At an import both bags are empty."""

    @abstractmethod
    def update(
        self, resource_id: str, old: Properties, new: Properties, operation: Operation
    ) -> Properties:
        """Change it in place; `old` are the recorded outputs. Returns the new outputs."""

    @abstractmethod
    def delete(self, resource_id: str, outputs: Properties, operation: Operation) -> None:
        """Remove it. Its absence is success."""

    def with_defaults(self, inputs: Properties) -> Properties:
        """`inputs` with the defaults of this type filled in."""
        return {**self.defaults, **inputs}

    def changed(self, old: Properties, new: Properties) -> frozenset[str]:
        """Names whose value differs, a left-out property counting as its default."""
        before, after = self.with_defaults(old), self.with_defaults(new)
        return frozenset(
            name
            for name in before.keys() | after.keys()
            if is_unknown(after.get(name)) or before.get(name) != after.get(name)
        )


def unknown_outputs(*names: str) -> Properties:
    """Outputs that are not known before the operation ran."""
    return dict.fromkeys(names, UNKNOWN)
