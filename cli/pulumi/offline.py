"""Runs the Pulumi program in its own process, without credentials, plugins or a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cli.environment import Environment
from cli.errors import FAILED, WRONG_INPUT, CliError
from cli.pulumi.cloud_sdks import make_sdk
from cli.pulumi.offline_documents import documents
from cli.targets import target_of
from slipway.config.document import read_document
from slipway.config.environment import NAMESPACE
from slipway.config.files import stack_file
from slipway.plan.preview import SECRET, OfflinePreview, Resource

PROGRAM = "stacks.offline"


def offline_preview(environment: Environment) -> OfflinePreview:
    """Every resource of the environment's program, as if nothing existed yet.

    Raises ConfigError, and CliError when the program fails: it has printed the reason to stderr.
    """
    make_sdk(target_of(environment) or "", environment.checkout, environment.cache)
    resources = _registered(environment)
    return {"schema_version": 1, "resources": resources, "documents": documents(resources)}


def _registered(environment: Environment) -> list[Resource]:
    source = stack_file(environment.name)
    document = read_document(environment.checkout / source, source=source)
    values = document.values.get("config") or {}
    request = {
        "program": str(environment.checkout / "__main__.py"),
        "stack": environment.name,
        "configuration": {key: _text(_masked(value)) for key, value in values.items()},
        "secret_keys": [key for key, value in values.items() if _masked(value) != value],
    }
    child = subprocess.run(
        # -B: write nothing, not even bytecode.
        [sys.executable, "-B", "-m", PROGRAM],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        text=True,
        cwd=environment.checkout,
        # Nothing else from the caller's environment: neither credentials nor settings.
        env={
            "PYTHONPATH": environment.variables()["PYTHONPATH"],
            "PATH": os.defpath,
            "HOME": str(Path.home()),  # files may be named from there (~)
            **dict.fromkeys(_key_variables(values), SECRET),
        },
        start_new_session=True,  # this program receives Ctrl-C and ends it
        check=False,
    )
    if child.returncode:
        raise CliError(
            f"the program of {source} did not finish",
            fix="correct what it reports above",
            exit_code=WRONG_INPUT if child.returncode == WRONG_INPUT else FAILED,
        )
    resources: list[Resource] = json.loads(child.stdout)
    return resources


def _key_variables(values: Mapping[str, Any]) -> Iterator[str]:
    """The variables from which the program takes the keys of the user's authorities."""
    for authority in (values.get(f"{NAMESPACE}security") or {}).get("authorities") or ():
        if isinstance(authority, Mapping) and authority.get("key_variable"):
            yield authority["key_variable"]


def _masked(value: Any) -> Any:
    """The configuration without secrets, which only the passphrase or a key service could
    decrypt."""
    if isinstance(value, Mapping):
        if set(value) == {"secure"}:
            return SECRET
        return {key: _masked(part) for key, part in value.items()}
    return [_masked(part) for part in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    """A value as Pulumi passes configuration to a program."""
    return value if isinstance(value, str) else json.dumps(value, default=str)
