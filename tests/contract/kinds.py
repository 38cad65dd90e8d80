"""Which kind of provider plugins the contract tests drive: SLIPWAY_TEST_PLUGINS is "stand-in" (the
registry-only plugins of this checkout, by default) or "official" (those that Pulumi downloads)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cli.pulumi.cloud_plugins import program_of
from toolchain.plugins.install import PROVIDERS, folders, sdk_version
from toolchain.plugins.install import install as install_stand_ins

VARIABLE = "SLIPWAY_TEST_PLUGINS"
STAND_IN, OFFICIAL = "stand-in", "official"
CHECKOUT = Path(__file__).resolve().parents[2]
_ELF = b"\x7fELF"  # official plugins are programs; those of this checkout are scripts


def chosen(variables: Mapping[str, str] = os.environ) -> str:
    """The kind to test. UsageError for another word."""
    kind = variables.get(VARIABLE) or STAND_IN
    if kind not in (STAND_IN, OFFICIAL):
        raise pytest.UsageError(f"{VARIABLE}={kind}: say {STAND_IN} or {OFFICIAL}")
    return kind


def official_programs(variables: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """The official plugin of each provider, of the version that its SDK asks for. UsageError where
    one is missing."""
    programs = dict(_found(variables))
    if missing := [name for name in PROVIDERS if name not in programs]:
        wanted = ", ".join(f"{name} {_version(name)}" for name in missing)
        raise pytest.UsageError(
            f"{VARIABLE}={OFFICIAL}, but no official plugin is installed for {wanted}:"
            f" pulumi plugin install resource {missing[0]} v{_version(missing[0])}, and so on,"
            " where Pulumi's downloads can be reached"
        )
    return programs


def install(kind: str, pulumi_home: Path) -> None:
    """Puts the plugins of this kind where Pulumi looks for them."""
    if kind == STAND_IN:
        install_stand_ins(pulumi_home, Path(sys.executable), CHECKOUT)
        return
    places = folders(pulumi_home, Path(sys.executable))
    for name, program in official_programs().items():
        places[name].mkdir(parents=True)
        (places[name] / program.name).symlink_to(program)


def why_not_official(item: pytest.Item) -> str | None:
    """Why a test cannot run against official plugins; None if it can."""
    if item.get_closest_marker("stand_in"):
        return "the official plugin does otherwise (toolchain/plugins/README.md)"
    if "pulumi_home" not in getattr(item, "fixturenames", ()):
        return "no plugin takes part, or the code of the stand-in alone"
    return None


def _found(variables: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    for name in PROVIDERS:
        program = program_of(name, _version(name), variables)
        if program is not None and program.read_bytes()[: len(_ELF)] == _ELF:
            yield name, program


def _version(name: str) -> str:
    return sdk_version(Path(sys.executable), name)
