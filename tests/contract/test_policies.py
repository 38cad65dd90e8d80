"""The policy pack under the real CLI: on previews of this program, and on what is not known."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.binaries import find
from tests.contract.stack import Stack
from tests.live.environments import ROOT, copy_tree
from toolchain.prepare import EnvironmentJob, prepare
from toolchain.settings import default_cache

pytestmark = pytest.mark.binaries

WAIVERS = """\
waivers:
  - {rule: single-server, resource: platform, owner: ada, reason: a test, expires: 2999-01-01}
  - {rule: single-replica, resource: "model-*", owner: ada, reason: a test, expires: 2999-01-01}
  - {rule: unprotected, resource: "*", owner: ada, reason: a test, expires: 2999-01-01}
"""
UNKNOWN_ADDRESS = """
import pulumi_random
password = pulumi_random.RandomPassword("password", length=16)
pulumi.ComponentResource("slipway:index:Gateway", "gateway", {"address": password.result})
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with two environments of the same content: dev, and prod, where every rule counts."""
    find("pulumi")
    folder = tmp_path_factory.mktemp("checkout")
    copy_tree(folder)
    (folder / "Pulumi.prod.yaml").write_text((folder / "Pulumi.dev.yaml").read_text())
    return folder


def run(checkout: Path, command: str) -> subprocess.CompletedProcess[str]:
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=checkout,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def test_a_preview_of_dev_keeps_every_rule(checkout: Path) -> None:
    done = run(checkout, "./slipway preview -s dev")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✅ slipway@v1.0.0" in done.stdout
    assert "[advisory]" not in done.stdout


@pytest.mark.parametrize(
    "preview",
    [
        "./slipway preview -s prod",
        # Plain Pulumi, in the environment of that stack, which the first one has made.
        'eval "$(./slipway env -s prod)" && pulumi preview --non-interactive --refresh=false'
        " --stack prod --policy-pack policies",
    ],
    ids=["slipway", "pulumi"],
)
def test_what_production_must_have_blocks_a_preview_of_prod(checkout: Path, preview: str) -> None:
    done = run(checkout, preview)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[mandatory]  single-server  (slipway:index:Platform: platform)" in done.stdout
    assert "fix: Set `slipway:servers: 3`. (docs/policies.md#single-server)" in done.stdout
    assert "[mandatory]  unprotected  (slipway:index:NodePool: pool-cpu)" in done.stdout


def test_waived_findings_are_shown_and_let_the_preview_pass(checkout: Path) -> None:
    path = checkout / "policies" / "waivers.yaml"
    before = path.read_text()
    path.write_text(WAIVERS)
    try:
        done = run(checkout, "./slipway preview -s prod")
    finally:
        path.write_text(before)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[mandatory]" not in done.stdout
    assert "single-server: platform has 1 server (ada, until 2999-01-01: a test)" in done.stdout


def test_a_value_that_is_unknown_at_preview_blocks_instead_of_passing(
    stack: Stack, tmp_path: Path
) -> None:
    stack.program(UNKNOWN_ADDRESS)
    job = EnvironmentJob(name="policies", requirements=ROOT / "policies" / "requirements.txt")
    environment = prepare([job], default_cache())["policies"]
    pack = tmp_path / "policies"
    pack.mkdir()
    for path in (ROOT / "policies").iterdir():
        if path.name != ".venv":
            (pack / path.name).symlink_to(path)
    (pack / ".venv").symlink_to(environment)
    refused = stack.preview(f"--policy-pack={pack}")
    assert not refused.ok
    assert "could-not-be-evaluated" in refused.output
    assert "public-gateway: gateway address is not known at preview" in refused.output
