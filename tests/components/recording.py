"""Runs of a program at preview, and after its secrets were made: canaries to look for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import stacks.recording
from stacks.recording import Recording


def record(build: Callable[[], Any], *, preview: bool = False) -> Recording:
    return stacks.recording.record(build, created=None if preview else _canary)


def _canary(type_: str, name: str) -> Mapping[str, Any]:
    """What the providers of secrets and of certificates compute; the others compute nothing."""
    match type_.rpartition(":")[2]:
        case "RandomPassword":
            return {"result": f"random of {name}"}
        case "SelfSignedCert" | "LocallySignedCert":
            return {"certPem": f"-----BEGIN CERTIFICATE----- of {name}"}
    return {}
