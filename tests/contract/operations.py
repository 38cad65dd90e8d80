"""A provider operation without an engine."""

import threading

from toolchain.plugins.resource import Operation


def idle_operation(shown: list[str] | None = None) -> Operation:
    """An operation that nobody interrupts; the lines it shows go to `shown`."""
    return Operation(
        urn="urn:pulumi:s::t::a:b:C::name",
        timeout_s=0,
        log=(shown if shown is not None else []).append,
        cancelled=threading.Event(),
    )
