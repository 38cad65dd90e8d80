"""The lifecycle of a target that is not dev, on real resources and backends of the user's own."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cli.environment import find as find_environment
from tests.binaries import find
from tests.live.environments import ROOT, Platform, copy_tree
from toolchain.settings import default_cache

pytestmark = pytest.mark.binaries

PASSPHRASE = "known to the user only"
ALL = {"host-0", "host-1", "job"}
# A model that is served by processors: its tools are those of other tests.
_MACHINE = {"kind": "aws", "instance": "m7i.2xlarge", "nodes": 1}
SMALL = {
    "slipway:pools": {"edge": _MACHINE, "cpu": _MACHINE},
    "slipway:models": {"smollm2": {"pool": "cpu", "replicas": {"min": 1, "max": 1}}},
}
# What the tests' own interpreter and shell have set must not reach the copy's.
OWN = re.compile("PULUMI_|PYTHONPATH$|VIRTUAL_ENV$")


@dataclasses.dataclass(frozen=True)
class Fleet(Platform):
    """`machines` is the folder of the files that stand for them, `backend` that of the state."""

    machines: Path = Path()
    backend: Path = Path()

    @property
    def exists(self) -> set[str]:
        return {path.name for path in self.machines.iterdir()} & ALL

    @property
    def state(self) -> Path:
        return self.backend / ".pulumi" / "stacks" / "slipway" / f"{self.name}.json"

    @property
    def recorded(self) -> set[str]:
        """The names of the resources that the state holds."""
        latest = json.loads(self.state.read_text())["checkpoint"]["latest"] or {}
        return {each["urn"].rpartition("::")[2] for each in latest.get("resources", ())}

    def configure(self, key: str, value: object) -> None:
        path = self.checkout / f"Pulumi.{self.name}.yaml"
        document = yaml.safe_load(path.read_text())
        document["config"][key] = value
        path.write_text(yaml.safe_dump(document))

    def shell(self, script: str) -> str:
        """What a script prints in which `slipway` is this checkout's."""
        done = subprocess.run(
            ["/bin/sh", "-ec", f'slipway() {{ ./slipway "$@"; }}; {script}'],
            cwd=self.checkout,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of this checkout in which the target aws is built."""
    find("pulumi")
    folder = tmp_path_factory.mktemp("fleet") / "checkout"
    copy_tree(folder)
    shutil.copy(Path(__file__).with_name("target.py"), folder / "stacks/targets/aws.py")
    (folder / "stacks/platform.py").write_text("from stacks.targets.aws import Platform\n")
    # Its machines are files: neither AWS's plugin nor what says how hosts are reached is needed.
    for module, needed in (("targets", "NEEDED"), ("pulumi/cloud_plugins", "PLUGINS")):
        with (folder / f"cli/{module}.py").open("a") as file:
            file.write(f"\n{needed}.clear()\n")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def fleet(checkout: Path, tmp_path: Path) -> Iterator[Fleet]:
    """An environment of aws, never brought up."""
    machines, backend, home = (tmp_path / name for name in ("machines", "backend", "home"))
    for folder in (machines, backend, home):
        folder.mkdir()
    document = yaml.safe_load((ROOT / "Pulumi.aws.yaml").read_text())
    document["config"] |= SMALL | {"machines:folder": str(machines)}
    del document["config"]["slipway:aws"], document["config"]["slipway:ssh"]
    (checkout / "Pulumi.fleet.yaml").write_text(yaml.safe_dump(document))
    inherited = {name: value for name, value in os.environ.items() if not OWN.match(name)}
    yield Fleet(
        checkout=checkout,
        name="fleet",
        machines=machines,
        backend=backend,
        variables={
            **inherited,
            "HOME": str(home),
            "SLIPWAY_CACHE": str(default_cache()),
            "PULUMI_BACKEND_URL": backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        },
    )
    # Nothing of it was kept where environments of this machine are.
    assert not (checkout / ".slipway" / "state").exists()
    assert not (checkout / ".slipway" / "fleet").exists()


def test_up_applies_the_program_and_the_users_backend_keeps_its_state(fleet: Fleet) -> None:
    assert fleet.up()["outputs"]["gateway"]["grpc"] == "gateway.example:8080"
    assert fleet.exists == ALL
    assert fleet.recorded >= {*ALL, "token"}
    secret = (fleet.machines / "job").read_text()
    assert secret not in fleet.state.read_text()
    fleet.slipway("preview", "--expect-no-changes")
    assert fleet.up()["outputs"]["gateway"]["grpc"] == "gateway.example:8080"
    assert (fleet.machines / "job").read_text() == secret
    fleet.down()
    assert fleet.exists == set()
    assert not fleet.state.exists()
    assert "has no stack" in fleet.slipway("down", "--yes").stderr


@pytest.mark.parametrize("left_in_the_shell", ["nothing", "dev"])
def test_a_backend_of_the_project_and_a_passphrase_in_a_file_are_respected_too(
    fleet: Fleet, tmp_path: Path, left_in_the_shell: str
) -> None:
    """Also after `eval "$(slipway env -s dev)"`, which points Pulumi at the state of dev."""
    (tmp_path / "passphrase").write_text(PASSPHRASE)
    project = fleet.checkout / "Pulumi.yaml"
    before = project.read_text()
    project.write_text(f"{before}backend: {{url: '{fleet.backend.as_uri()}'}}\n")
    variables = {
        **(fleet.variables or {}),
        "PULUMI_CONFIG_PASSPHRASE_FILE": f"{tmp_path}/passphrase",
    }
    del variables["PULUMI_BACKEND_URL"], variables["PULUMI_CONFIG_PASSPHRASE"]
    if left_in_the_shell == "dev":
        variables |= find_environment("dev", checkout=fleet.checkout).own_backend
    other = dataclasses.replace(fleet, variables=variables)
    try:
        other.up()
        assert other.recorded >= ALL
        shown = other.shell('eval "$(slipway env -s fleet)"; pulumi stack output -s fleet gateway')
        assert json.loads(shown)["grpc"] == "gateway.example:8080"
        other.down()
        assert not other.state.exists()
    finally:
        project.write_text(before)


def test_down_refuses_while_a_resource_is_protected_and_says_how_to_unprotect_it(
    fleet: Fleet,
) -> None:
    fleet.configure("machines:protect", True)
    fleet.up()
    refused = fleet.slipway("down", "--yes", check=False)
    assert refused.returncode == 1
    assert "nothing was destroyed" in refused.stderr
    assert re.findall(r"Command::([\w-]+)\n", refused.stderr) == ["host-0"]
    assert fleet.exists == ALL
    assert fleet.recorded >= ALL
    command, then = refused.stderr.rpartition("to destroy them: ")[2].split(", then ")
    fleet.shell(command)
    assert then.strip() == "slipway down -s fleet"
    fleet.down()
    assert fleet.exists == set()
    assert not fleet.state.exists()


def test_a_destroy_that_fails_half_way_keeps_what_exists_and_the_next_completes_it(
    fleet: Fleet,
) -> None:
    fleet.up()
    stuck = fleet.machines / "host-1.stuck"
    stuck.touch()
    failed = fleet.slipway("down", "--yes", check=False)
    assert failed.returncode == 1
    assert "the state keeps what still exists" in failed.stderr
    assert "job" not in fleet.exists
    assert "host-1" in fleet.exists
    assert fleet.recorded & ALL == fleet.exists
    again = fleet.slipway("down", "--yes", check=False)
    assert again.returncode == 1
    assert fleet.recorded & ALL == fleet.exists == {"host-1"}
    stuck.unlink()
    fleet.down()
    assert fleet.exists == set()
    assert not fleet.state.exists()


def test_an_interrupted_destroy_keeps_what_exists_and_the_next_completes_it(fleet: Fleet) -> None:
    fleet.up()
    slow = fleet.machines / "host-1.slow"
    os.mkfifo(slow)
    with subprocess.Popen(
        fleet.command("down", "--yes"),
        cwd=fleet.checkout,
        env=fleet.environ,
        stderr=subprocess.PIPE,
        text=True,
    ) as down:
        assert down.stderr is not None
        said = []
        for line in down.stderr:
            # Once: a second signal would end it without a word.
            if "host-1 deleting" in line and not any("host-1 deleting" in each for each in said):
                down.send_signal(signal.SIGINT)
            said.append(line)
    assert down.returncode == 130, "".join(said)
    assert "the state keeps what still exists" in "".join(said)
    assert "host-1" in fleet.exists
    assert fleet.recorded & ALL >= fleet.exists
    slow.unlink()
    fleet.down()
    assert fleet.exists == set()
    assert not fleet.state.exists()


@pytest.mark.parametrize("verb", ["start", "stop", "status"])
def test_what_needs_processes_of_this_machine_is_refused_with_the_reason(
    fleet: Fleet, verb: str
) -> None:
    refused = fleet.slipway(verb, check=False)
    assert refused.returncode == 2
    assert '"fleet"' in refused.stderr
    assert "fix: " in refused.stderr
    assert refused.stdout == ""
