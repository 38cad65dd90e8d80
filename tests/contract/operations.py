"""A provider operation without an engine, and what it is done to."""

import threading
from typing import Any

from toolchain.plugins.resource import Operation, State


def idle_operation(shown: list[str] | None = None) -> Operation:
    """An operation that nobody interrupts; the lines it shows go to `shown`."""
    return Operation(
        name="name",
        log=(shown if shown is not None else []).append,
        cancelled=threading.Event(),
    )


def recorded(outputs: dict[str, Any], resource_id: str = "id") -> State:
    """A resource that Pulumi has recorded, made without inputs."""
    return State(id=resource_id, inputs={}, outputs=outputs)
